import { closeSync, fchownSync, openSync, statSync } from "node:fs";
import { type FileHandle, lchown, mkdir, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { OperatorError } from "../../foundation/errors.ts";
import { errorCode } from "../../program/files/small-file.ts";

/** The user and the group to whom a store belongs: `serve` runs as this user. */
interface Owner {
  readonly uid: number;
  readonly gid: number;
}

/** Makes files belong to the owner of their store. */
export const StoreOwner = {
  /** The owner of a folder, or of the nearest folder above it that exists. */
  async of(path: string): Promise<Owner> {
    try {
      return await stat(path);
    } catch (error) {
      if (errorCode(error) !== "ENOENT" || dirname(path) === path) throw error;
      return StoreOwner.of(dirname(path));
    }
  },

  /**
   * Makes a folder and the missing folders above it. As root it gives them to the owner.
   *
   * @returns The topmost folder that it has made; `undefined` if all existed.
   */
  async makeFolder(path: string, owner: Owner, mode = 0o700): Promise<string | undefined> {
    const first = await mkdir(path, { recursive: true, mode }).catch(async (fault: unknown) => {
      // With `recursive`, Node reports ENOENT for a read-only file system; without it, the true error.
      if (errorCode(fault) !== "ENOENT") throw fault;
      await mkdir(path, { mode });
      return path;
    });
    if (first === undefined || !isRoot()) return first;
    for (let made = path; ; made = dirname(made)) {
      await lchown(made, owner.uid, owner.gid);
      if (made === first || dirname(made) === made) return first;
    }
  },

  /** Gives a new file to the owner of its folder, if this process is root's. Otherwise it does nothing. */
  async leaveFile(file: FileHandle, folder: string): Promise<void> {
    if (!isRoot()) return;
    const { uid, gid } = await stat(folder);
    await file.chown(uid, gid);
  },

  /** Opens an SQLite database that belongs to the owner of its folder, as do the files that SQLite makes beside it. */
  openFile(path: string): DatabaseSync {
    makeOwnedFile(path);
    return new DatabaseSync(path);
  },

  /**
   * Opens an SQLite database for this process alone, by a lock that the operating system releases with the process.
   * Every write is flushed to the disk before it returns.
   *
   * @param tables The statements that create the tables of a new database.
   * @throws Error with `code` when the file is locked, is no database, or cannot be written.
   */
  openDatabase(path: string, tables: string): DatabaseSync {
    const database = StoreOwner.openFile(path);
    database.exec(`
      PRAGMA locking_mode = EXCLUSIVE;
      PRAGMA journal_mode = WAL;
      PRAGMA synchronous = FULL;
      ${tables}
    `);
    return database;
  },
};

/**
 * Gives a new file to the owner of its folder, who could not read it otherwise. Only root can. Where the
 * file system itself decides who owns files, both belong to the same user already.
 *
 * @throws OperatorError for another user.
 */
export async function giveToOwner(file: FileHandle, folder: string): Promise<void> {
  const [{ uid }, owner] = await Promise.all([file.stat(), stat(folder)]);
  if (uid === owner.uid) return;
  if (!isRoot()) throw foreign(folder, owner);
  await file.chown(owner.uid, owner.gid);
}

/**
 * Makes an empty file for a library that opens it by its name, and leaves it to the owner of its folder. An existing
 * file stays as it is: its name may be a link that the owner has made.
 */
function makeOwnedFile(path: string): void {
  let file: number;
  try {
    file = openSync(path, "wx", 0o600);
  } catch (error) {
    if (errorCode(error) === "EEXIST") return;
    throw error;
  }
  try {
    if (!isRoot()) return;
    const { uid, gid } = statSync(dirname(path));
    fchownSync(file, uid, gid);
  } finally {
    closeSync(file);
  }
}

/** Does work in a folder. @throws OperatorError with the command to type, if the folder is another user's. */
export async function asOwner<T>(folder: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const code = errorCode(error);
    if (code !== "EACCES" && code !== "EPERM") throw error;
    const owner = await StoreOwner.of(folder).catch(() => undefined);
    if (owner === undefined || owner.uid === process.geteuid?.()) throw error;
    throw foreign(folder, owner);
  }
}

function foreign(folder: string, { uid }: Owner): OperatorError {
  if (uid === 0) {
    const user = `${process.geteuid?.()}:${process.getegid?.()}`;
    return new OperatorError(
      `${folder} belongs to root, perhaps since a restore as root, and this user cannot use it.\n` +
        `Type, if this user runs the server: sudo chown -R ${user} ${folder}`,
    );
  }
  return new OperatorError(
    `${folder} belongs to user ${uid}, who could not read what this user writes there.\n` +
      `Type: sudo --preserve-env=KEK -u '#${uid}' rampart …`,
  );
}

const isRoot = (): boolean => process.geteuid?.() === 0;
