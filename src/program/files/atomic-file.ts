import { randomUUID } from "node:crypto";
import { rmSync } from "node:fs";
import { type FileHandle, link, open, rename, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

/** The permissions and the owner of a new file. */
export interface FileOwnership {
  readonly mode: number;
  /** Changes the owner of the new file, before it has any content. */
  readonly give?: ((file: FileHandle) => Promise<void>) | undefined;
}

/** Writes files completely or not at all. */
export const AtomicFile = {
  /**
   * Replaces a file atomically: a reader sees the old content or all of the new. The content outlives a power failure,
   * and so does the name after {@link AtomicFile.flushFolder}.
   */
  async replace(
    path: string,
    content: string | Uint8Array,
    ownership: FileOwnership,
  ): Promise<void> {
    await writeBeside(path, content, ownership, rename);
  },

  /**
   * Creates a file with all of its content, or no file.
   *
   * @throws Error `EEXIST` if there is a file of this name: it stays as it is.
   */
  async create(
    path: string,
    content: string | Uint8Array,
    ownership: FileOwnership,
  ): Promise<void> {
    await writeBeside(path, content, ownership, link);
  },

  /** Flushes the names in a folder to the disk, so that they outlive a power failure. */
  async flushFolder(path: string): Promise<void> {
    await using folder = await open(path, "r");
    await folder.sync();
  },
};

/** Writes a temporary file beside `path`, gives it the final name, and removes it even after an error. */
async function writeBeside(
  path: string,
  content: string | Uint8Array,
  ownership: FileOwnership,
  give: (temporary: string, path: string) => Promise<void>,
): Promise<void> {
  const temporary = join(dirname(path), `.${basename(path)}.${randomUUID()}`);
  using _ = removedAtExit(temporary);
  try {
    await writeNew(temporary, content, ownership);
    await give(temporary, path);
  } finally {
    await rm(temporary, { force: true });
  }
}

/** Temporary files that are being written, which are removed when the process exits. */
const temporaries = new Set<string>();

function removeAll(): void {
  for (const path of temporaries) rmSync(path, { force: true });
}

function removedAtExit(path: string): Disposable {
  if (temporaries.size === 0) process.on("exit", removeAll);
  temporaries.add(path);
  return {
    [Symbol.dispose]: () => {
      temporaries.delete(path);
      if (temporaries.size === 0) process.off("exit", removeAll);
    },
  };
}

async function writeNew(
  path: string,
  content: string | Uint8Array,
  { mode, give }: FileOwnership,
): Promise<void> {
  await using file = await open(path, "wx", mode);
  await give?.(file);
  await file.writeFile(content);
  await file.sync();
}
