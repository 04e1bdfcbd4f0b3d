import { access, mkdir, readdir, rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { type ChildOptions, run, runWell } from "../testkit/programs/child-process.ts";
import { succeeds } from "../testkit/time/until.ts";

/** The command of an installed program, or the reason why it is missing. */
export type Software = { readonly program: string } | { readonly missing: string };

/** The reason why a program cannot be had on this machine. */
export class MissingProgram extends Error {}

/** The command of a program. @throws MissingProgram */
export async function required(found: Software | Promise<Software>): Promise<string> {
  const software = await found;
  if ("program" in software) return software.program;
  throw new MissingProgram(software.missing);
}

const root = join(import.meta.dirname, "../..");

/** The folder for installed programs, which git ignores. Go keeps its own caches elsewhere. */
const cacheFolder: string = join(root, ".interop");

/** The first build compiles everything, which takes long. */
const buildSeconds = 900;

/** A suite may wait for several builds of another one: no longer than the gate may take. */
const queueSeconds = 2700;

/**
 * Runs one build at a time among all suites. The system takes the lock back from a suite that is killed.
 *
 * @param seconds The longest wait for the builds of others.
 */
async function alone<T>(build: () => Promise<T>, seconds = queueSeconds): Promise<T> {
  await mkdir(cacheFolder, { recursive: true });
  const lock = new DatabaseSync(join(cacheFolder, "lock"), { timeout: 0 });
  const end = performance.now() + 1000 * seconds;
  try {
    while (!isLocked(lock)) {
      if (performance.now() > end) throw new Error(`other suites have built for ${seconds} s`);
      await sleep(200);
    }
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

/** The program that a variable names, where no registry has one. A gate accepts that it is not played. */
export function namedBy(variable: string): { readonly program: string } | NotNamed {
  const program = process.env[variable];
  return program ? { program } : { notPlayed: `${variable} names no program` };
}

interface NotNamed {
  readonly notPlayed: string;
}

interface Build {
  /** More variables of the build, such as `CGO_ENABLED`. */
  readonly settings?: Readonly<Record<string, string>>;
  /** When the build is killed, with all that it has started. */
  readonly seconds?: number;
}

/** A program from the Go module proxy, `example.com/module/cmd/name@v1.2.3`, built once. */
export function fromGoProxy(
  versioned: string,
  { settings = {}, seconds }: Build = {},
): Promise<Software> {
  const [path = "", version = ""] = versioned.split("@");
  // `example.com/name/v5` is the fifth version of `name`.
  const name = path.split("/").findLast((part) => !/^v\d+$/.test(part)) ?? path;
  const build = async (folder: string): Promise<void> => {
    const environment = { ...settings, GOBIN: folder, GOFLAGS: "-mod=mod" };
    await runGo(["install", versioned], { environment }, seconds);
  };
  return builtOnce(name, version, build, seconds);
}

/** @throws Error that says so where the build takes too long. */
async function runGo(
  values: readonly string[],
  options: ChildOptions,
  timeoutSeconds = buildSeconds,
): Promise<void> {
  const begun = performance.now();
  try {
    await runWell("go", values, { ...options, timeoutSeconds, isGroup: true });
  } catch (error) {
    const isLate = performance.now() - begun >= 1000 * timeoutSeconds;
    throw isLate ? new Error(`its build was not done in ${timeoutSeconds} s`) : error;
  }
}

/**
 * A program from the Go module proxy, built in the folder of its module by the sums that the module itself has: some
 * of its dependencies are not in the checksum database.
 *
 * @param command Its folder within the module.
 */
export function fromGoRelease(
  module: string,
  version: string,
  command: string,
  { seconds }: Build = {},
): Promise<Software> {
  const name = basename(command);
  const build = async (goal: string): Promise<void> => {
    const download = ["mod", "download", "-json", `${module}@${version}`];
    const { Dir: folder } = JSON.parse(await runWell("go", download));
    await runGo(["build", "-o", join(goal, name), `./${command}`], { folder }, seconds);
  };
  return builtOnce(name, version, build, seconds);
}

/** A program of a release, which a build puts into the folder, unless it is there already. */
export function builtOnce(
  name: string,
  version: string,
  build: (folder: string) => Promise<void>,
  seconds?: number,
): Promise<Software> {
  return orMissing(async () => {
    const folder = join(cacheFolder, "go", `${name}@${version}`);
    const program = join(folder, name);
    await alone(async () => {
      if (await isThere(program)) return;
      await mkdir(folder, { recursive: true });
      await build(folder);
    }, seconds);
    return program;
  });
}

/** A program of a Go module in this repository. Go builds only what has changed. */
export function fromGoModule(
  folder: string,
  name: string,
  { settings: environment = {}, seconds }: Build = {},
): Promise<Software> {
  return orMissing(async () => {
    await mkdir(join(cacheFolder, "go"), { recursive: true });
    const program = join(cacheFolder, "go", name);
    const build = ["build", "-o", program, "."];
    await alone(() => runGo(build, { folder, environment }, seconds), seconds);
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

const isThere = (path: string): Promise<boolean> => succeeds(access(path));
