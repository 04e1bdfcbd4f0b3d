import { createHash } from "node:crypto";
import { type FileHandle, open, readdir, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

/** How far a source of events, or a file of them, has been read. */
export interface Position {
  /** The index of the next event; in a file, the offset of the next octet. */
  readonly at: number;
  /** The digest of what stands before `at`, so that another source of the same name is noticed. */
  readonly mark: string;
}

/** How many octets at the beginning identify a file: the time and the ids of its first line are among them. */
const markedOctets = 1024;

/** Makes the position of an offset in a file; its mark is the digest of the first octets of the file. */
export const positionIn = async (file: FileHandle, at: number): Promise<Position> => ({
  at,
  mark: digestOf(await readAt(file, 0, Math.min(at, markedOctets))),
});

/** Whether a position was made in this file, whatever the file's name is now; always `true` for a position at 0. */
export async function isOf(file: FileHandle, position: Position): Promise<boolean> {
  return (await positionIn(file, position.at)).mark === position.mark;
}

/** Reads `length` octets of a file from the offset `at`; fewer only at its end. */
export async function readAt(file: FileHandle, at: number, length: number): Promise<Buffer> {
  const octets = Buffer.alloc(length);
  let read = 0;
  for (let more = -1; more !== 0 && read < length; read += more) {
    ({ bytesRead: more } = await file.read(octets, read, length - read, at + read));
  }
  return octets.subarray(0, read);
}

/** The SHA-256 digest in hexadecimal. */
export const digestOf = (octets: Uint8Array): string =>
  createHash("sha256").update(octets).digest("hex");

/**
 * Finds the file in which a position was made, and all newer ones, the oldest first: a rotation renames a file, or
 * copies and empties it.
 *
 * @param path The current file. Rotated files have its name, `.` or `-`, and a suffix.
 * @returns `undefined` if the file of the position is gone.
 */
export async function filesSince(
  path: string,
  position: Position,
): Promise<readonly string[] | undefined> {
  const name = basename(path);
  const names = (await readdir(dirname(path))).filter(
    (each) => each.startsWith(`${name}.`) || each.startsWith(`${name}-`),
  );
  const rotated = await Promise.all(
    names.map(async (each) => {
      const file = join(dirname(path), each);
      const found = await stat(file).catch(() => undefined);
      return found?.isFile() ? [{ file, changed: found.mtimeMs }] : [];
    }),
  );
  const older = rotated.flat().toSorted((a, b) => a.changed - b.changed);
  const files = [...older.map(({ file }) => file), path];
  // The current file is tried first, because a position at the beginning of a file has the mark of every file.
  for (const candidate of files.toReversed()) {
    await using file = await open(candidate).catch(() => undefined);
    if (file && (await isOf(file, position))) return files.slice(files.indexOf(candidate));
  }
  return undefined;
}
