import { readdir, rm, stat } from "node:fs/promises";
import { basename, dirname, join, relative, resolve } from "node:path";
import { Command } from "commander";
import { version } from "../../../foundation/build.ts";
import { OperatorError } from "../../../foundation/errors.ts";
import { StoreOwner } from "../../../node/files/store-owner.ts";
import { AtomicFile } from "../../../program/files/atomic-file.ts";
import { orOperatorError } from "../../terminal/failures.ts";
import type { Terminal } from "../../terminal/terminal.ts";
import { wranglerVersion } from "../../versions.ts";
import { wranglerToml } from "./wrangler-toml.ts";

/** The mode of folders before the umask, which decides who may read them. */
const folderMode = 0o777;

interface InitOptions {
  readonly package?: string;
}

/** `rampart init`: writes the project of a Worker. */
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
  const rampart = await dependency(folder, options);
  const files = projectFiles({
    name: workerName(folder),
    rampart,
    wranglerToml,
  });
  const made = await makeEmpty(folder);
  try {
    await writeFiles(terminal, folder, files);
  } catch (error) {
    // The next run would refuse half a project, because its folder is not empty.
    const left = (await readdir(folder)).map((name) => join(folder, name));
    for (const each of made === undefined ? left : [made]) await rm(each, { recursive: true });
    throw error;
  }
  const place = relative(process.cwd(), folder);
  const enter = place === "" ? "" : `cd ${place} && `;
  terminal.print(
    `\nNext, a CA on this machine with a first certificate: ${enter}npm install && npm start`,
  );
}

async function writeFiles(
  terminal: Terminal,
  folder: string,
  files: ReadonlyMap<string, string>,
): Promise<void> {
  for (const [path, text] of files) {
    const file = join(folder, path);
    const inFolder = dirname(file);
    await StoreOwner.makeFolder(inFolder, await StoreOwner.of(folder), folderMode);
    await AtomicFile.create(file, text, {
      mode: 0o666,
      give: (made) => StoreOwner.leaveFile(made, inFolder),
    });
    terminal.print(`  wrote ${path}`);
  }
}

/**
 * The dependency on Rampart: its version, or an archive by a path relative to the folder, so that both can move
 * together.
 */
async function dependency(folder: string, { package: archive }: InitOptions): Promise<string> {
  if (archive === undefined) return version;
  if ((await stat(archive)).isFile()) return `file:${relative(folder, archive)}`;
  throw new OperatorError(`--package: ${archive} is not a file`);
}

/**
 * Makes the folder, or requires that it is empty.
 * @returns The topmost folder that it has made; `undefined` if the empty folder was there.
 */
async function makeEmpty(folder: string): Promise<string | undefined> {
  const made = await StoreOwner.makeFolder(folder, await StoreOwner.of(folder), folderMode);
  const [first] = await readdir(folder);
  if (first === undefined) return made;
  throw new OperatorError(
    `${folder} is not empty (${first}): init only writes into an empty folder`,
  );
}

/** The folder's name if a Worker may have it, else `rampart`: two Workers of one name would replace each other. */
function workerName(folder: string): string {
  const name = basename(folder);
  return /^[a-z0-9](?:[a-z0-9-]{0,52}[a-z0-9])?$/.test(name) ? name : "rampart";
}

/** The name of the package, which a project depends on. */
export const packageName = "@rampart-ca/rampart";

/** The folder of the console's script in the package. */
const consoleFolder = `node_modules/${packageName}/dist/console`;

/** The settings in which two projects differ. */
export interface ProjectSettings {
  /** The Worker's name. */
  readonly name: string;
  /** The version or file that npm installs as Rampart. */
  readonly rampart: string;
  /** The `wrangler.toml` of Rampart's repository. */
  readonly wranglerToml: string;
}

/**
 * Makes the files of a Worker project, by their paths.
 * @throws Error if `wranglerToml` lacks a line that a project changes.
 */
export function projectFiles(settings: ProjectSettings): ReadonlyMap<string, string> {
  return new Map([
    ["package.json", `${JSON.stringify(manifest(settings), undefined, 2)}\n`],
    ["wrangler.toml", configuration(settings)],
    ["src/worker.ts", `export { default } from "${packageName}/worker";\n`],
    [".gitignore", "node_modules/\n.wrangler/\n.dev.vars\n"],
    ["README.md", readme(settings)],
  ]);
}

const manifest = ({ name, rampart }: ProjectSettings): object => ({
  name,
  version: "0.0.0",
  private: true,
  type: "module",
  scripts: {
    start: "rampart-dev",
    rampart: "rampart",
    check: "wrangler deploy --dry-run && rampart doctor --deploy",
    deploy: "wrangler deploy",
  },
  dependencies: { [packageName]: rampart },
  devDependencies: { wrangler: wranglerVersion },
  // Wrangler works without these scripts, and npm warns of any that is not listed here.
  allowScripts: { esbuild: false, workerd: false },
});

/** Makes a project's `wrangler.toml` from the repository's. */
function configuration({ name, wranglerToml }: ProjectSettings): string {
  const withLog = `export { default, IssuanceLogShard } from "${packageName}/worker-with-log"`;
  const withConsole = `export { default } from "${packageName}/worker-with-console"`;
  return [
    [`\nname = "rampart"\n`, `\nname = "${name}"\n`],
    [`\nmain = "src/worker/main.ts"\n`, `\nmain = "src/worker.ts"\n`],
    [`\n# main = "src/worker/main-with-log.ts"\n`, `\n# ${withLog}; in src/worker.ts\n`],
    [`\n# main = "src/worker/main-with-console.ts"\n`, `\n# ${withConsole}; in src/worker.ts\n`],
    [", which `npm run console:assets` writes:", " of the package:"],
    [`\n# directory = ".wrangler/console"\n`, `\n# directory = "${consoleFolder}"\n`],
  ].reduce((text, [from = "", to = ""]) => replaceOnce(text, from, to), wranglerToml);
}

function replaceOnce(text: string, from: string, to: string): string {
  const [before, after, ...more] = text.split(from);
  if (before !== undefined && after !== undefined && more.length === 0) return before + to + after;
  throw new Error(`wrangler.toml does not have once: ${from}`);
}

const readme = ({ name }: ProjectSettings): string => `\
# ${name}: a certificate authority on Cloudflare Workers

1. \`npm install && npm start\` runs the CA on this machine, with a cluster beside it, and prints a first certificate.
2. \`npx wrangler login\`, then \`npx wrangler kv namespace create AUTHORITIES\`, which prints the id of the store.
3. Set what \`wrangler.toml\` marks with SET, among it that id, and \`INCEPTION_DATE\`, the UTC day of step 6. \`npm run check\` says what is left.
4. \`(umask 077; npm run -s rampart -- kek new k1 > ~/rampart-kek)\` makes the key-encryption key. Without it nothing opens the CA's records.
5. \`npx wrangler secret put KEK < ~/rampart-kek\`, then move the file to where backups of secrets live.
6. \`npm run deploy\`; \`/readyz\` answers 200 two PROPAGATION_INTERVALs after the first run of the cron.
7. \`npm run -s rampart -- authority list --remote\` shows the authorities. \`npm run -s rampart -- --help\` lists the other commands.
`;
