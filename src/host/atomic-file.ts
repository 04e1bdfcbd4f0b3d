import { randomUUID } from "node:crypto";
import { chown, rename, rm, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

/** The permissions and the owner of a file. */
export interface FileOwnership {
  readonly mode: number;
  readonly owner?: { readonly uid: number; readonly gid: number } | undefined;
}

/** Replaces a file atomically: a reader sees the old content or the whole new content. */
export async function replaceFile(
  path: string,
  content: string | Uint8Array,
  { mode, owner }: FileOwnership,
): Promise<void> {
  const temporary = join(dirname(path), `.${basename(path)}.${randomUUID()}`);
  try {
    await writeFile(temporary, content, { mode, flush: true, flag: "wx" });
    if (owner) await chown(temporary, owner.uid, owner.gid);
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}
