import { X509Certificate } from "node:crypto";
import { join } from "node:path";
import { DatabaseSync, type SQLInputValue } from "node:sqlite";
import { recordedClaim } from "../../../authn/subject-claims.ts";
import { LogEntry } from "../../../ca/issuance/log-entry.ts";
import { nameAllowList } from "../../../foundation/globs.ts";
import { StoreOwner } from "../../../node/files/store-owner.ts";
import type { Bytes } from "../../../pki/encoding/bytes.ts";
import { Frontier } from "../../../tlog/frontier.ts";
import {
  type IndexedEntry,
  indexed,
  type LoggedEntry,
  type SearchFields,
  searchQuery,
} from "./entry.ts";

/** How far a copy follows its log. */
interface FollowerState {
  readonly frontier: Frontier;
  /** The note of the last checkpoint, verbatim. */
  readonly checkpoint: string;
  /** The verifier key that the follower has pinned, unless it was given a policy. */
  readonly verifierKey: string;
}

/** The version of the format of a copy. */
const version = 1;

const columns = Object.keys(indexed);

/** Functions of an entry and a searched text, for fields that have no column. */
const searches: Readonly<Record<string, (entry: LogEntry, text: string) => boolean>> = {
  is_of_pod: ({ pod }, text) => pod?.name === text || pod?.uid === text,
  is_of_issuer: ({ issuer }, text) => issuer === text,
  is_of_subject: ({ tokenSubject }, glob) =>
    typeof tokenSubject === "object" && nameAllowList([glob])(tokenSubject.sub),
  has_claim: ({ tokenSubject }, text) => {
    const [, name = "", glob = ""] = /^([^=]*)=(.*)$/s.exec(text) ?? [];
    const { claims = {} } = typeof tokenSubject === "object" ? tokenSubject : {};
    return recordedClaim(claims, name).some(nameAllowList([glob]));
  },
};

/**
 * A verified copy of a log with an index, in an SQLite file: entries, tiles, and the last checkpoint. It verifies
 * nothing itself.
 * @param folder An existing folder; without one, everything is in memory.
 */
export class FollowerIndex implements Disposable {
  readonly #database: DatabaseSync;
  readonly #statements = new Map<string, ReturnType<DatabaseSync["prepare"]>>();

  constructor(folder?: string) {
    this.#database =
      folder === undefined
        ? new DatabaseSync(":memory:")
        : StoreOwner.openFile(join(folder, "log.sqlite"));
    // The cache is large (128 MiB), because each new entry changes random pages of the index of serial numbers.
    this.#database.exec(`
      PRAGMA busy_timeout = 5000;
      PRAGMA journal_mode = WAL;
      PRAGMA cache_size = -131072;
      CREATE TABLE IF NOT EXISTS entry (
        idx INTEGER PRIMARY KEY, at TEXT NOT NULL, spiffeId TEXT NOT NULL, serial TEXT NOT NULL,
        cluster TEXT, node TEXT, tokenId TEXT, impersonator TEXT, notAfter TEXT NOT NULL,
        octets BLOB NOT NULL) STRICT;
      CREATE TABLE IF NOT EXISTS tile (path TEXT PRIMARY KEY, octets BLOB NOT NULL) STRICT, WITHOUT ROWID;
      CREATE TABLE IF NOT EXISTS state (
        id INTEGER PRIMARY KEY, size INTEGER NOT NULL, frontier BLOB NOT NULL,
        checkpoint TEXT NOT NULL, verifierKey TEXT NOT NULL) STRICT;
      CREATE TABLE IF NOT EXISTS authority (
        certificate BLOB PRIMARY KEY, idx INTEGER NOT NULL) STRICT, WITHOUT ROWID;
      CREATE TABLE IF NOT EXISTS question (id INTEGER PRIMARY KEY, json TEXT NOT NULL UNIQUE) STRICT;
      CREATE TABLE IF NOT EXISTS request (
        idx INTEGER PRIMARY KEY, at TEXT NOT NULL, question INTEGER, provedAt TEXT) STRICT;
      CREATE TABLE IF NOT EXISTS watched (id INTEGER PRIMARY KEY, size INTEGER NOT NULL) STRICT;
      CREATE INDEX IF NOT EXISTS entry_at ON entry (at);
    `);
    for (const [name, fits] of Object.entries(searches)) {
      this.#database.function(name, { deterministic: true }, (octets, text) =>
        Number(fits(LogEntry.parse(octets as Bytes), String(text))),
      );
    }
    this.#migrate();
    this.#createIndexes();
  }

  #createIndexes(): void {
    for (const column of columns) {
      this.#database.exec(`CREATE INDEX IF NOT EXISTS entry_${column}_at ON entry (${column}, at)`);
    }
  }

  #dropIndexes(): void {
    for (const column of columns) this.#database.exec(`DROP INDEX entry_${column}_at`);
  }

  /**
   * Converts an older copy, whose indexes have no time, and whose serial numbers may have an odd number of digits. A
   * trigger stays, because an older program may still write into this copy.
   */
  #migrate(): void {
    const [state] = this.all<{ user_version: number }>("PRAGMA user_version");
    if (state && state.user_version >= version) return;
    this.#database.exec(`
      BEGIN IMMEDIATE;
      ${columns.map((column) => `DROP INDEX IF EXISTS entry_${column};`).join(" ")}
      DROP INDEX IF EXISTS entry_serial_at;
      UPDATE entry SET serial = '0' || serial WHERE length(serial) % 2 = 1;
      CREATE TRIGGER IF NOT EXISTS entry_serial AFTER INSERT ON entry WHEN length(NEW.serial) % 2 = 1 BEGIN
        UPDATE entry SET serial = '0' || serial WHERE idx = NEW.idx;
      END;
      PRAGMA user_version = ${version};
      COMMIT;
    `);
  }

  /** The stored state; `undefined` for an empty copy. */
  state(): FollowerState | undefined {
    const row = this.#database.prepare("SELECT * FROM state").get() as
      | { size: number; frontier: Bytes; checkpoint: string; verifierKey: string }
      | undefined;
    if (!row) return undefined;
    const { size, frontier, checkpoint, verifierKey } = row;
    return { frontier: Frontier.fromBytes(size, frontier), checkpoint, verifierKey };
  }

  /** Runs work in a transaction: if it fails, the copy stays as it was. @throws Error within another transaction. */
  async transaction<T>(work: () => Promise<T>): Promise<T> {
    this.#database.exec("BEGIN IMMEDIATE");
    try {
      const isFirst = !this.state();
      // On an empty copy, making the indexes after the entries takes less than half of the time.
      if (isFirst) this.#dropIndexes();
      const result = await work();
      if (isFirst) this.#createIndexes();
      this.#database.exec("COMMIT");
      return result;
    } catch (error) {
      this.#database.exec("ROLLBACK");
      throw error;
    }
  }

  /** Stores a new entry. @throws Error for an index that the copy has. */
  addEntry(idx: number, octets: Uint8Array, entry: LoggedEntry): void {
    const { at, spiffeId, serial, cluster, node, tokenId, impersonator, notAfter } = entry;
    this.#prepared("INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)").run(
      ...[idx, at, spiffeId, serial, cluster ?? null, node ?? null, tokenId ?? null],
      ...[impersonator ?? null, notAfter, octets],
    );
  }

  /** Stores the index at which the log first has the certificate of a CA, in DER. */
  addAuthority(idx: number, certificate: Uint8Array): void {
    this.#prepared("INSERT OR IGNORE INTO authority VALUES (?, ?)").run(certificate, idx);
  }

  /** Stores a tile, in place of one at the same path. */
  addTile(path: string, octets: Uint8Array): void {
    this.#prepared("INSERT OR REPLACE INTO tile VALUES (?, ?)").run(path, octets);
  }

  /** A stored tile; `undefined` if the copy lacks it. */
  tile(path: string): Uint8Array | undefined {
    const row = this.#prepared("SELECT octets FROM tile WHERE path = ?").get(path) as
      | { octets: Uint8Array }
      | undefined;
    return row?.octets;
  }

  /** Replaces the stored state. */
  save({ frontier, checkpoint, verifierKey }: FollowerState): void {
    this.#prepared("INSERT OR REPLACE INTO state VALUES (1, ?, ?, ?, ?)").run(
      ...[frontier.size, frontier.toBytes(), checkpoint, verifierKey],
    );
  }

  /** Finds the newest entries that match, the newest first. */
  search(fields: SearchFields, limit: number): readonly IndexedEntry[] {
    const { sql, values } = searchQuery(fields, limit);
    return this.all(sql, ...values);
  }

  /** The clusters of all entries. */
  clusters(): readonly string[] {
    const query = "SELECT DISTINCT cluster FROM entry WHERE cluster IS NOT NULL";
    return this.all<{ cluster: string }>(query).map(({ cluster }) => cluster);
  }

  /** The number of entries whose anomalies have been printed. */
  watched(): number {
    return this.all<{ size: number }>("SELECT size FROM watched")[0]?.size ?? 0;
  }

  /** Replaces the number that {@link watched} returns. */
  saveWatched(size: number): void {
    this.#prepared("INSERT OR REPLACE INTO watched VALUES (1, ?)").run(size);
  }

  /** When the newest entry was appended; `undefined` for an empty copy. */
  newest(): Date | undefined {
    const [row] = this.all<{ at: string | null }>("SELECT max(at) AS at FROM entry");
    return row?.at ? new Date(row.at) : undefined;
  }

  /** The entries from an index on, one at a time: a log may be larger than the memory. */
  from(idx: number): Generator<IndexedEntry> {
    return this.each("SELECT * FROM entry WHERE idx >= ? ORDER BY idx", idx);
  }

  /** The certificates of CAs that first appear in the log at this index or later. */
  authorities(
    from = 0,
  ): readonly { readonly idx: number; readonly certificate: X509Certificate }[] {
    return this.all<{ idx: number; certificate: Bytes }>(
      "SELECT * FROM authority WHERE idx >= ? ORDER BY idx",
      from,
    ).map(({ idx, certificate }) => ({ idx, certificate: new X509Certificate(certificate) }));
  }

  /** Runs a statement that changes the copy. */
  run(statement: string, ...values: readonly SQLInputValue[]): void {
    this.#prepared(statement).run(...values);
  }

  /** All rows of a query. */
  all<Row>(query: string, ...values: readonly SQLInputValue[]): readonly Row[] {
    return this.#prepared(query).all(...values) as unknown as Row[];
  }

  /** The rows of a query, one at a time. */
  *each<Row>(query: string, ...values: readonly SQLInputValue[]): Generator<Row> {
    for (const row of this.#prepared(query).iterate(...values)) yield row as unknown as Row;
  }

  #prepared(query: string): ReturnType<DatabaseSync["prepare"]> {
    const statement = this.#statements.get(query) ?? this.#database.prepare(query);
    this.#statements.set(query, statement);
    return statement;
  }

  [Symbol.dispose](): void {
    this.#database.close();
  }
}
