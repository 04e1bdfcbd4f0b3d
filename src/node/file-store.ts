import { randomUUID } from "node:crypto";
import { type FileHandle, mkdir, open, readdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import type { AuthorityStore, StoredRecord } from "../custody/authority-store.ts";

/** More authorities than any rotation leaves behind; a store with more was tampered with. */
const maximumRecords = 64;

/** More than any record; what is longer is cut, and then does not open. */
const maximumOctets = 256 * 1024;

const recordName = /^([0-9a-f]{2,64})\.json$/;
const unfinishedName = /^\.[0-9a-f]{2,64}\.[0-9a-f-]{36}$/;

/**
 * The store in a directory of this machine: one file an authority, readable by its owner alone.
 *
 * A record is written beside its name, flushed to the disk, and then takes the name: a reader, in this
 * process or another, sees all of it or what was there before, and what `put` has confirmed outlives
 * a power failure. Several processes may share the directory.
 *
 * @throws Error when the directory can neither be used nor made, or is open to every user.
 */
export async function openFileStore(directory: string): Promise<AuthorityStore> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const { mode } = await stat(directory);
  if ((mode & 0o007) !== 0) {
    throw new Error(`${directory} is open to every user of the machine: chmod o-rwx ${directory}`);
  }
  await sweep(directory);
  return {
    load: () => loadAll(directory),
    put: (record) => put(directory, record),
    delete: async (id) => {
      await rm(pathOf(directory, id), { force: true });
      await flush(directory);
    },
  };
}

async function loadAll(directory: string): Promise<StoredRecord[]> {
  const names = (await readdir(directory)).filter((name) => recordName.test(name));
  if (names.length > maximumRecords) {
    throw new Error(`more than ${maximumRecords} records in ${directory}`);
  }
  const records = await Promise.all(names.map((name) => load(directory, name)));
  return records.filter((record) => record !== undefined);
}

/** A name that was listed and is gone was deleted in between. */
async function load(directory: string, name: string): Promise<StoredRecord | undefined> {
  const file = await open(join(directory, name), "r").catch(ignoring("ENOENT"));
  if (!file) return undefined;
  try {
    return { id: name.slice(0, -".json".length), value: await readText(file) };
  } finally {
    await file.close();
  }
}

async function readText(file: FileHandle): Promise<string> {
  const { size } = await file.stat();
  const { buffer, bytesRead } = await file.read(Buffer.alloc(Math.min(size, maximumOctets)));
  return buffer.toString("utf8", 0, bytesRead);
}

async function put(directory: string, { id, value }: StoredRecord): Promise<void> {
  const path = pathOf(directory, id);
  const unfinished = join(directory, `.${id}.${randomUUID()}`);
  try {
    await writeFlushed(unfinished, value);
    await rename(unfinished, path);
  } catch (error) {
    await rm(unfinished, { force: true });
    throw error;
  }
  await flush(directory);
}

async function writeFlushed(path: string, value: string): Promise<void> {
  const file = await open(path, "wx", 0o600);
  try {
    await file.writeFile(value);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** A name is durable once its directory is. */
async function flush(directory: string): Promise<void> {
  const file = await open(directory, "r");
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}

/**
 * Removes what a process that was killed has left half written. Should another process be writing
 * it just now, its `put` fails and is tried again by the next rotation.
 */
async function sweep(directory: string): Promise<void> {
  const names = (await readdir(directory)).filter((name) => unfinishedName.test(name));
  await Promise.all(names.map((name) => rm(join(directory, name), { force: true })));
}

function pathOf(directory: string, id: string): string {
  const name = `${id}.json`;
  if (!recordName.test(name)) throw new Error("an authority's id is hexadecimal");
  return join(directory, name);
}

function ignoring(code: string): (error: unknown) => undefined {
  return (error) => {
    if (error instanceof Error && "code" in error && error.code === code) return undefined;
    throw error;
  };
}
