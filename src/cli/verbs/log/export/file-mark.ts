import { createHash } from "node:crypto";
import { type FileHandle, open, readdir, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

/** A place in a source of events, or in a file of them. */
export interface Position {
  readonly at: number;
  /** The digest of what stands before the place, so that another source of the same name is noticed. */
  readonly mark: string;
}

/** How many octets at the beginning identify a file: the time and ids of its first line are within them. */
const markedOctets = 1024;

/** A place in a file, marked by the octets with which the file begins. */
export const positionIn = async (file: FileHandle, at: number): Promise<Position> => ({
  at,
  mark: digestOf(await readAt(file, 0, Math.min(at, markedOctets))),
});

/** Whether a file is the one of a position, whatever its name is now. */
export async function isOf(file: FileHandle, position: Position): Promise<boolean> {
  return (await positionIn(file, position.at)).mark === position.mark;
}

/** Up to so many octets of a file, fewer only at its end. */
export async function readAt(file: FileHandle, at: number, length: number): Promise<Buffer> {
  const octets = Buffer.alloc(length);
  let read = 0;
  for (let more = -1; more !== 0 && read < length; read += more) {
    ({ bytesRead: more } = await file.read(octets, read, length - read, at + read));
  }
  return octets.subarray(0, read);
}

export const digestOf = (octets: Uint8Array): string =>
  createHash("sha256").update(octets).digest("hex");

/**
 * The file of a position and all that were made after it, the oldest first: a rotation renames a file, or copies and
 * empties it. `undefined` if the file of the position is gone.
 *
 * @param path Rotated files have its name with `.` or `-` and more behind it.
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
  // The current file comes first: a file without octets before the position has the mark of every other one.
  for (const candidate of files.toReversed()) {
    await using file = await open(candidate).catch(() => undefined);
    if (file && (await isOf(file, position))) return files.slice(files.indexOf(candidate));
  }
  return undefined;
}
