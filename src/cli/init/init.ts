import { mkdir, readdir, writeFile } from "node:fs/promises";
import { basename, dirname, join, relative, resolve } from "node:path";
import { Command } from "commander";
import { OperatorError } from "../../foundation/operator-error.ts";
import { orOperatorError } from "../terminal/operator-error.ts";
import { projectFiles } from "./project.ts";
import { wranglerToml } from "./wrangler-toml.ts";

/** `rampart init`: the project of a Worker. */
export function initCommand(clock: () => Date): Command {
  return new Command("init")
    .argument("[folder]", "an empty folder, or one that does not exist yet", ".")
    .description("write the project of a Worker, which `wrangler deploy` takes")
    .action((folder: string) => orOperatorError(() => writeProject(resolve(folder), clock())));
}

async function writeProject(folder: string, today: Date): Promise<void> {
  await requireEmpty(folder);
  const files = projectFiles({ name: workerName(folder), today, wranglerToml });
  for (const [path, text] of files) {
    const file = join(folder, path);
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, text, { flag: "wx" });
    console.log(`  wrote ${path}`);
  }
  const place = relative(process.cwd(), folder);
  const enter = place === "" ? "" : `cd ${place} && `;
  console.log(
    `\nNext, a CA on this machine with a first certificate: ${enter}npm install && npm start`,
  );
}

async function requireEmpty(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
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
