import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import {
  createFile,
  type FileOwnership,
  flushFolder,
  replaceFile,
} from "../../program/files/atomic-file.ts";
import { systemCode } from "../../program/files/system-code.ts";
import type { LogObjects } from "../../tlog/sequencer/storage.ts";
import { leaveToOwner, makeFolder, ownerOf } from "../files/store-owner.ts";

type Octets = Uint8Array<ArrayBuffer>;

const ownershipIn = (folder: string): FileOwnership => ({
  mode: 0o600,
  give: (file) => leaveToOwner(file, folder),
});

/**
 * The published objects of a log as files. An object is flushed, then gets its name if the name is free. So a
 * reader sees a whole object or none, and no object is ever overwritten but the checkpoint.
 *
 * @param parent The folder of the log, which is there; the folders between it and an object are made.
 */
export function fileObjects(parent: string): LogObjects {
  const flushed = new Set<string>([parent]);

  async function makeFolders(folder: string): Promise<void> {
    if (flushed.has(folder)) return;
    await makeFolders(dirname(folder));
    await makeFolder(folder, await ownerOf(parent));
    await flushFolder(dirname(folder));
    flushed.add(folder);
  }

  return {
    read: (path) => readObject(join(parent, path)),
    create: async (path, octets) => {
      const file = join(parent, path);
      await makeFolders(dirname(file));
      await createIfFree(file, octets);
      return readObject(file);
    },
    replace: async (path, octets) => {
      const file = join(parent, path);
      await replaceFile(file, octets, ownershipIn(dirname(file)));
      await flushFolder(dirname(file));
    },
  };
}

/** The content of a file of a log; `undefined` if there is none. */
export async function readObject(file: string): Promise<Octets | undefined> {
  try {
    return new Uint8Array(await readFile(file));
  } catch (error) {
    const code = systemCode(error);
    if (code === "ENOENT" || code === "ENOTDIR" || code === "EISDIR") return undefined;
    throw error;
  }
}

async function createIfFree(file: string, octets: Octets): Promise<void> {
  try {
    await createFile(file, octets, ownershipIn(dirname(file)));
  } catch (error) {
    if (systemCode(error) !== "EEXIST") throw error;
  }
  await flushFolder(dirname(file));
}
