import { access, mkdir, readdir, rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { run, runWell } from "../testkit/programs/child-process.ts";

/** The command of an installed program, or the reason why it is missing. */
export type Software = { readonly program: string } | { readonly missing: string };

const root = join(import.meta.dirname, "../..");

/** The folder for installed programs, which git ignores. Go keeps its own caches elsewhere. */
const cacheFolder: string = join(root, ".interop");

/** The first build compiles everything, which takes long. */
const buildSeconds = 900;

/** Runs one build at a time among all suites. The system takes the lock back from a suite that is killed. */
async function alone<T>(build: () => Promise<T>): Promise<T> {
  await mkdir(cacheFolder, { recursive: true });
  const lock = new DatabaseSync(join(cacheFolder, "lock"), { timeout: 0 });
  try {
    while (!isLocked(lock)) await sleep(200);
    return await build();
  } finally {
    lock.close();
  }
}

/** The result code SQLITE_BUSY: another connection holds the lock. */
const sqliteBusy = 5;

function isLocked(lock: DatabaseSync): boolean {
  try {
    lock.exec("BEGIN EXCLUSIVE");
    return true;
  } catch (error) {
    if (error instanceof Error && "errcode" in error && error.errcode === sqliteBusy) return false;
    throw error;
  }
}

/** A program of this machine. @param proof Arguments with which its output matches `mustSay`. */
export function ofTheMachine(
  program: string,
  proof: readonly string[],
  mustSay: RegExp,
): Promise<Software> {
  return orMissing(async () => {
    const { stdout, stderr } = await run(program, proof);
    if (mustSay.test(stdout + stderr)) return program;
    throw new Error(`${program} is too old, or was built without what it takes (${mustSay})`);
  });
}

/**
 * A program from the Go module proxy, `example.com/module/cmd/name@v1.2.3`, built once.
 *
 * @param settings More variables of the build, such as `CGO_ENABLED`.
 */
export function fromGoProxy(
  versioned: string,
  settings: Readonly<Record<string, string>> = {},
): Promise<Software> {
  const [path = "", version = ""] = versioned.split("@");
  // `example.com/name/v5` is the fifth version of `name`.
  const name = path.split("/").findLast((part) => !/^v\d+$/.test(part)) ?? path;
  return builtOnce(name, version, async (folder) => {
    const environment = { ...settings, GOBIN: folder, GOFLAGS: "-mod=mod" };
    await runWell("go", ["install", versioned], { environment, timeoutSeconds: buildSeconds });
  });
}

/**
 * A program from the Go module proxy, built in the folder of its module by the sums that the module itself has: some
 * of its dependencies are not in the checksum database.
 *
 * @param command Its folder within the module.
 */
export function fromGoRelease(module: string, version: string, command: string): Promise<Software> {
  const name = basename(command);
  return builtOnce(name, version, async (goal) => {
    const download = ["mod", "download", "-json", `${module}@${version}`];
    const { Dir: folder } = JSON.parse(await runWell("go", download));
    const options = { folder, timeoutSeconds: buildSeconds };
    await runWell("go", ["build", "-o", join(goal, name), `./${command}`], options);
  });
}

/** A program of a release, which a build puts into the folder, unless it is there already. */
export function builtOnce(
  name: string,
  version: string,
  build: (folder: string) => Promise<void>,
): Promise<Software> {
  return orMissing(async () => {
    const folder = join(cacheFolder, "go", `${name}@${version}`);
    const program = join(folder, name);
    await alone(async () => {
      if (await isThere(program)) return;
      await mkdir(folder, { recursive: true });
      await build(folder);
    });
    return program;
  });
}

/**
 * A program of a Go module in this repository. Go builds only what has changed.
 *
 * @param environment More variables of the build, such as `GOTOOLCHAIN`.
 */
export function fromGoModule(
  folder: string,
  name: string,
  environment: Readonly<Record<string, string>> = {},
): Promise<Software> {
  return orMissing(async () => {
    await mkdir(join(cacheFolder, "go"), { recursive: true });
    const program = join(cacheFolder, "go", name);
    const options = { folder, environment, timeoutSeconds: buildSeconds };
    await alone(() => runWell("go", ["build", "-o", program, "."], options));
    return program;
  });
}

/** A program of a Rust crate in this repository, by its lock file. Cargo builds only what has changed. */
export function fromCargo(folder: string, name: string): Promise<Software> {
  return orMissing(async () => {
    const target = join(cacheFolder, "cargo", name);
    await mkdir(target, { recursive: true });
    const options = { folder, timeoutSeconds: buildSeconds };
    const values = ["build", "--quiet", "--locked", "--target-dir", target];
    await alone(() => runWell("cargo", values, options));
    return join(target, "debug", name);
  });
}

/** A program of a Debian package, which is unpacked and not installed. @param path From the root of the file system. */
export function fromDebian(debianPackage: string, path: string): Promise<Software> {
  return orMissing(async () => {
    const folder = join(cacheFolder, "debian", debianPackage);
    const program = join(folder, "root", path);
    await alone(async () => {
      if (!(await isThere(program))) await unpack(debianPackage, folder);
    });
    return program;
  });
}

async function unpack(debianPackage: string, folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  const download = () =>
    runWell("apt-get", ["download", "-qq", debianPackage], {
      folder,
      timeoutSeconds: buildSeconds,
    });
  // A fresh machine has no lists of packages yet.
  await download().catch(async () => {
    await runWell("apt-get", ["update", "-qq"], { timeoutSeconds: buildSeconds });
    await download();
  });
  const [archive = ""] = await readdir(folder);
  await runWell("dpkg", ["-x", join(folder, archive), join(folder, "root")]);
}

/** A Python with packages, `name==1.2.3`, in a virtual environment of its own. */
export function python(name: string, packages: readonly string[]): Promise<Software> {
  return orMissing(async () => {
    const folder = join(cacheFolder, "python", [name, ...packages].join("+"));
    const program = join(folder, "bin/python");
    const stamp = join(folder, "complete");
    const install = ["-m", "pip", "install", "--quiet", "--only-binary", ":all:", ...packages];
    await alone(async () => {
      if (await isThere(stamp)) return;
      await runWell("python3", ["-m", "venv", "--clear", folder]);
      await runWell(program, install, { timeoutSeconds: buildSeconds });
      await mkdir(stamp);
    });
    return program;
  });
}

/** The outcome of a search whose failure means that the program is missing. */
export async function orMissing(find: () => Promise<string>): Promise<Software> {
  try {
    return { program: await find() };
  } catch (error) {
    return { missing: wordsOf(error) };
  }
}

function wordsOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (!("syscall" in error && "path" in error)) return error.message;
  return `${error.path} is not on this machine`;
}

const isThere = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  );
