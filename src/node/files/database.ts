import { DatabaseSync } from "node:sqlite";
import { makeOwnedFile } from "./store-owner.ts";

/**
 * An SQLite database that one process alone has open; the operating system ends its lock with the process.
 * Every write is flushed to the disk before it returns.
 *
 * @param tables The statements that create the tables of a new database.
 * @throws Error with `code` when the file is locked, is no database, or cannot be written.
 */
export function openDatabase(path: string, tables: string): DatabaseSync {
  const database = openFile(path);
  database.exec(`
    PRAGMA locking_mode = EXCLUSIVE;
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    ${tables}
  `);
  return database;
}

/** SQLite gives the files beside a database to the owner of the database. */
export function openFile(path: string): DatabaseSync {
  makeOwnedFile(path);
  return new DatabaseSync(path);
}
