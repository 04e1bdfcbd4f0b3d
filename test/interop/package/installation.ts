import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { runWell } from "../../testkit/programs/child-process.ts";

const root = join(import.meta.dirname, "../../..");

/** A folder into which npm has installed the archive, and nothing else of the repository. */
export type Installation = Awaited<ReturnType<typeof installPackage>>;

/** Two minutes are much; a registry may be slow. */
const installSeconds = 300;
const quiet = ["--no-audit", "--no-fund", "--prefer-offline", "--loglevel=error"];

/** Packs the repository as `npm publish` would, and installs the archive into an empty folder. */
export async function installPackage(folder: string) {
  const packed = await runWell("npm", ["pack", "--json", "--pack-destination", folder], {
    folder: root,
    timeoutSeconds: installSeconds,
  });
  // What prepack prints comes before npm's own answer.
  const answer = JSON.parse(packed.slice(packed.search(/^[[{]/m)));
  const [{ filename }] = Object.values(answer) as [{ filename: string }];
  const archive = join(folder, filename);
  const { version }: { readonly version: string } = JSON.parse(
    await readFile(join(root, "package.json"), "utf8"),
  );
  const installed = join(folder, "installed");
  const program = await installArchive(archive, installed);
  return { archive, version, folder: installed, program, path };
}

/** This Node and the machine's programs. */
const path = `${dirname(process.execPath)}:/usr/local/bin:/usr/bin:/bin`;

/** Installs an archive into a folder that does not exist. @returns The command `rampart`. */
export async function installArchive(archive: string, folder: string): Promise<string> {
  await mkdir(folder);
  await writeFile(join(folder, "package.json"), `{ "private": true }\n`);
  await install({ path, folder }, archive);
  return join(folder, "node_modules/.bin/rampart");
}

export async function install(
  { path, folder }: Pick<Installation, "path" | "folder">,
  ...packages: readonly string[]
): Promise<void> {
  await runWell("npm", ["install", ...quiet, ...packages], {
    folder,
    environment: { PATH: path },
    timeoutSeconds: installSeconds,
  });
}

/** The names of the installed packages, those of scopes with their scope. */
export async function installedPackages(folder: string): Promise<readonly string[]> {
  const lock = JSON.parse(await readFile(join(folder, "package-lock.json"), "utf8"));
  return Object.keys(lock.packages)
    .filter((path) => path !== "")
    .map((path) => path.replace(/^.*node_modules\//, ""));
}
