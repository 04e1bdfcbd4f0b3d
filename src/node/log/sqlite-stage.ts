import type { LogStage, StagedBatch, StagedTexts } from "../../tlog/sequencer/storage.ts";
import { openDatabase } from "../files/database.ts";

/** A stage in a file. */
export interface SqliteStage extends LogStage {
  readonly close: () => void;
}

/** The batches that a reader gets at once: sixteen of a mebibyte at the most. */
const batchesAtOnce = 16;

/**
 * The stage of a log in an SQLite database of this process alone.
 *
 * @throws Error with `code` when the file is locked, is no database, or cannot be written.
 */
export function openSqliteStage(path: string): SqliteStage {
  const database = openDatabase(
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
