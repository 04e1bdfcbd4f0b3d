import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { blocksUnder, textsIn } from "../../pages/page-blocks.ts";
import { run } from "../../testkit/programs/child-process.ts";
import type { Answer } from "../../testkit/programs/command-line.ts";
import { hangMilliseconds } from "../../testkit/time/hang-limit.ts";

const page = resolve("docs/how-to/incident.md");

/** The blocks of commands under a heading of docs/how-to/incident.md, each a list of lines. */
export async function commandsUnder(heading: string): Promise<string[][]> {
  const scripts = textsIn(await blocksUnder(page, heading), "sh");
  return scripts.map((script) => script.trimEnd().split("\n"));
}

/** The variables that the page has an operator set first. */
export async function variablesOfPage(): Promise<string[]> {
  const [first = ""] = (await readFile(page, "utf8")).split(/^## /m);
  return [...first.matchAll(/^export (\w+)=/gm)].map(([, name = ""]) => name);
}

/** An operator's terminal: a folder, and the variables of the page. */
export interface Terminal {
  readonly folder: string;
  readonly environment: Readonly<Record<string, string>>;
}

/** Puts `rampart` into the folder `bin` of an operator, as an installation does. */
export async function installRampart(folder: string): Promise<void> {
  const file = join(folder, "bin/rampart");
  await mkdir(dirname(file), { recursive: true });
  const program = resolve("src/cli/main.ts");
  await writeFile(file, `#!/bin/sh\nexec "${process.execPath}" "${program}" "$@"\n`, {
    mode: 0o755,
  });
}

/** Runs one line of the page by a shell, as it stands. */
export async function runLine(line: string, { folder, environment }: Terminal): Promise<Answer> {
  const { exitCode, stdout, stderr } = await run("/bin/sh", ["-u", "-c", line], {
    folder,
    environment: {
      PATH: `${join(folder, "bin")}:/usr/local/bin:/usr/bin:/bin`,
      HOME: folder,
      ...environment,
    },
    timeoutSeconds: hangMilliseconds / 1000,
  });
  return { code: exitCode, stdout, stderr };
}
