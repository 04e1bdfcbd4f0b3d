import { randomUUID } from "node:crypto";
import { type FileHandle, open, rename, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

/** The permissions and the owner of a file. */
export interface FileOwnership {
  readonly mode: number;
  /** Gives the new file to its owner before it has any content. */
  readonly give?: ((file: FileHandle) => Promise<void>) | undefined;
}

/**
 * Replaces a file atomically: a reader sees the old content or the whole new content. The content
 * outlives a power failure, and so does the name after {@link flushFolder}.
 */
export async function replaceFile(
  path: string,
  content: string | Uint8Array,
  ownership: FileOwnership,
): Promise<void> {
  const temporary = join(dirname(path), `.${basename(path)}.${randomUUID()}`);
  try {
    await writeNew(temporary, content, ownership);
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
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

/** Flushes the names in a folder to the disk, so that they outlive a power failure. */
export async function flushFolder(path: string): Promise<void> {
  await using folder = await open(path, "r");
  await folder.sync();
}
