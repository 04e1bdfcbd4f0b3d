import { lstat, readdir } from "node:fs/promises";
import { join } from "node:path";
import { systemCode } from "../../../program/files/system-code.ts";
import { type Finding, finding } from "../../../status/finding.ts";

/** The owner and the mode of a store's files. A store that does not exist yet has none. */
export async function fileFindings(directory: string): Promise<readonly Finding[]> {
  const top = await lstat(directory).catch(ignoringAbsence);
  // A path that is no folder is a store that cannot be read, which the records tell.
  if (!top?.isDirectory()) return [];
  const open = isOpen(top.mode) ? [notPrivate(directory, "its folder")] : [];
  const files = await filesBelow(directory);
  const foreign = files.filter(({ uid }) => uid !== top.uid);
  const readable = files.filter(({ mode }) => isOpen(mode));
  return [
    ...open,
    ...(foreign[0] ? [foreignOwner(directory, foreign.length, foreign[0])] : []),
    ...(readable[0] ? [notPrivate(directory, countOf(readable.length, readable[0].path))] : []),
  ];
}

interface File {
  readonly path: string;
  readonly uid: number;
  readonly mode: number;
}

async function filesBelow(directory: string): Promise<File[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  const paths = entries
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name));
  const files: File[] = [];
  for (const path of paths) {
    const found = await lstat(path).catch(ignoringAbsence);
    if (found) files.push({ path, uid: found.uid, mode: found.mode });
  }
  return files;
}

/** A record may be deleted while this looks. */
function ignoringAbsence(error: unknown): undefined {
  if (systemCode(error) !== "ENOENT") throw error;
}

const isOpen = (mode: number): boolean => (mode & 0o007) !== 0;

const countOf = (count: number, path: string): string =>
  count === 1 ? path : `${path} and ${count - 1} more files`;

const notPrivate = (directory: string, what: string): Finding =>
  finding(
    "record-not-private",
    `The store in ${directory} is open to every user of the machine: ${what}.`,
    `chmod -R o-rwx ${directory}`,
  );

const foreignOwner = (directory: string, count: number, { path, uid }: File): Finding =>
  finding(
    "record-owner",
    `In the store in ${directory}, ${countOf(count, path)} belong to user ${uid} and not to the folder's owner.`,
    `chown -R --reference=${directory} ${directory}`,
  );
