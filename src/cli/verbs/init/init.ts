import { readdir, stat } from "node:fs/promises";
import { basename, dirname, join, relative, resolve } from "node:path";
import { Command } from "commander";
import { OperatorError } from "../../../foundation/errors.ts";
import { leaveToOwner, makeFolder, ownerOf } from "../../../node/files/store-owner.ts";
import { createFile } from "../../../program/files/atomic-file.ts";
import { orOperatorError } from "../../terminal/operator-error.ts";
import type { Terminal } from "../../terminal/terminal.ts";
import { version } from "../../version.ts";
import { projectFiles } from "./project.ts";
import { wranglerToml } from "./wrangler-toml.ts";

/** Less the umask: a project is for whoever may read its user's files. */
const folderMode = 0o777;

interface InitOptions {
  readonly package?: string;
}

/** `rampart init`: the project of a Worker. */
export function initCommand(terminal: Terminal): Command {
  return new Command("init")
    .argument("[folder]", "an empty folder, or one that does not exist yet", ".")
    .description("write the project of a Worker, which `wrangler deploy` takes")
    .option("--package <archive>", "what `npm pack` has made, where no registry has this version")
    .action((folder: string, options: InitOptions) =>
      orOperatorError(() => writeProject(terminal, resolve(folder), options)),
    );
}

async function writeProject(
  terminal: Terminal,
  folder: string,
  options: InitOptions,
): Promise<void> {
  const rampart = await dependency(options);
  await requireEmpty(folder);
  const files = projectFiles({
    name: workerName(folder),
    today: terminal.clock(),
    rampart,
    wranglerToml,
  });
  for (const [path, text] of files) {
    const file = join(folder, path);
    const inFolder = dirname(file);
    await makeFolder(inFolder, await ownerOf(folder), folderMode);
    await createFile(file, text, { mode: 0o666, give: (made) => leaveToOwner(made, inFolder) });
    terminal.print(`  wrote ${path}`);
  }
  const place = relative(process.cwd(), folder);
  const enter = place === "" ? "" : `cd ${place} && `;
  terminal.print(
    `\nNext, a CA on this machine with a first certificate: ${enter}npm install && npm start`,
  );
}

async function dependency({ package: archive }: InitOptions): Promise<string> {
  if (archive === undefined) return version;
  if ((await stat(archive)).isFile()) return `file:${resolve(archive)}`;
  throw new OperatorError(`--package: ${archive} is not a file`);
}

async function requireEmpty(folder: string): Promise<void> {
  await makeFolder(folder, await ownerOf(folder), folderMode);
  const [first] = await readdir(folder);
  if (first === undefined) return;
  throw new OperatorError(
    `${folder} is not empty (${first}): init only writes into an empty folder`,
  );
}

/** The folder's name if a Worker may have it: another Worker of the account keeps its own. */
function workerName(folder: string): string {
  const name = basename(folder);
  return /^[a-z0-9](?:[a-z0-9-]{0,52}[a-z0-9])?$/.test(name) ? name : "rampart";
}
