import { type FileHandle, readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { AtomicFile } from "../../program/files/atomic-file.ts";
import { errorCode } from "../../program/files/small-file.ts";
import type {
  LogObjects,
  LogStage,
  StagedBatch,
  StagedTexts,
} from "../../tlog/sequencer/storage.ts";
import { StoreOwner } from "../files/store-owner.ts";

type Octets = Uint8Array<ArrayBuffer>;

const ownershipIn = (folder: string) => ({
  mode: 0o600,
  give: (file: FileHandle) => StoreOwner.leaveFile(file, folder),
});

/**
 * The published objects of a log as files. An object is flushed, then gets its name if the name is free. So a reader
 * sees a complete object or none, and no object but the checkpoint is ever overwritten: `create` returns the one that
 * is there.
 *
 * @param parent The folder of the log, which must exist; the folders below it are created.
 * @param flush Flushes the names in a folder.
 */
export function fileObjects(
  parent: string,
  flush: typeof AtomicFile.flushFolder = AtomicFile.flushFolder,
): LogObjects {
  const flushed = new Set<string>([parent]);

  async function makeFolders(folder: string): Promise<void> {
    if (flushed.has(folder)) return;
    await makeFolders(dirname(folder));
    await StoreOwner.makeFolder(folder, await StoreOwner.of(parent));
    await flush(dirname(folder));
    flushed.add(folder);
  }

  return {
    read: (path) => readObject(join(parent, path)),
    create: async (path, octets) => {
      const file = join(parent, path);
      await makeFolders(dirname(file));
      await createIfFree(file, octets);
      await flush(dirname(file));
      return readObject(file);
    },
    replace: async (path, octets) => {
      const file = join(parent, path);
      await AtomicFile.replace(file, octets, ownershipIn(dirname(file)));
      await flush(dirname(file));
    },
  };
}

/** Reads a file of a log; `undefined` if there is none. */
export async function readObject(file: string): Promise<Octets | undefined> {
  try {
    return new Uint8Array(await readFile(file));
  } catch (error) {
    const code = errorCode(error);
    if (code === "ENOENT" || code === "ENOTDIR" || code === "EISDIR") return undefined;
    throw error;
  }
}

async function createIfFree(file: string, octets: Octets): Promise<void> {
  try {
    await AtomicFile.create(file, octets, ownershipIn(dirname(file)));
  } catch (error) {
    if (errorCode(error) !== "EEXIST") throw error;
  }
}

/** The stage of a log in a SQLite file. */
export interface SqliteStage extends LogStage {
  readonly close: () => void;
}

/** How many batches are read at once, each of at most a mebibyte. */
const batchesAtOnce = 16;

/**
 * Opens the stage of a log in an SQLite database, which it locks for this process.
 *
 * @throws Error with `code` when the file is locked, is no database, or cannot be written.
 */
export function openSqliteStage(path: string): SqliteStage {
  const database = StoreOwner.openDatabase(
    path,
    `CREATE TABLE IF NOT EXISTS batch (
      first INTEGER PRIMARY KEY, count INTEGER NOT NULL, octets BLOB NOT NULL) STRICT;
    CREATE TABLE IF NOT EXISTS text (name TEXT PRIMARY KEY, value TEXT NOT NULL)
      STRICT, WITHOUT ROWID;`,
  );
  const insert = database.prepare("INSERT INTO batch VALUES (?, ?, ?)");
  const remove = database.prepare("DELETE FROM batch WHERE first + count <= ?");
  const select = database.prepare(
    `SELECT first, count, octets FROM batch WHERE first >= ? ORDER BY first LIMIT ${batchesAtOnce}`,
  );
  const last = database.prepare(
    "SELECT first + count AS end FROM batch ORDER BY first DESC LIMIT 1",
  );
  const write = database.prepare("INSERT OR REPLACE INTO text VALUES (?, ?)");
  const read = database.prepare("SELECT value FROM text WHERE name = ?");
  const textOf = (name: keyof StagedTexts): string | undefined => {
    const row = read.get(name) as { readonly value: string } | undefined;
    return row?.value;
  };
  return {
    texts: () => {
      const [key, head, named] = [textOf("key"), textOf("head"), textOf("named")];
      return key !== undefined && head !== undefined ? { key, head, named } : undefined;
    },
    batches: (from) => select.all(from) as unknown as StagedBatch[],
    end: () => (last.get() as { readonly end: number } | undefined)?.end,
    append: ({ first, count, octets }) => {
      insert.run(first, count, octets);
    },
    save: (texts, deleteUpTo) => {
      database.exec("BEGIN");
      try {
        for (const [name, value] of Object.entries(texts)) {
          if (value !== undefined) write.run(name, value);
        }
        if (deleteUpTo !== undefined) remove.run(deleteUpTo);
        database.exec("COMMIT");
      } catch (error) {
        if (database.isTransaction) database.exec("ROLLBACK");
        throw error;
      }
    },
    close: () => database.close(),
  };
}
