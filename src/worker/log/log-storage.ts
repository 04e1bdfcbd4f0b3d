import { concatBytes } from "../../foundation/octets.ts";
import { Hash } from "../../tlog/merkle.ts";
import type {
  LogObjects,
  LogStage,
  StagedBatch,
  StagedTexts,
} from "../../tlog/sequencer/storage.ts";

/** The name of the binding to the R2 bucket with the log. */
export const bucketBinding = "LOG_BUCKET";

const batchesAtOnce = 16;

/** Rows may have 2 MB (Cloudflare's limits of Durable Objects), so this is safely below. */
const maximumMergedOctets = 1_000_000;

const createBatch = `CREATE TABLE IF NOT EXISTS batch (
  first INTEGER PRIMARY KEY, count INTEGER NOT NULL, octets BLOB NOT NULL)`;

type Row = { first: number; count: number; octets: ArrayBuffer };

/**
 * The stage of a log in the SQLite of a Durable Object. The platform holds every answer back until the writes before it
 * are durable (output gate).
 *
 * Cloudflare bills each row that is written or deleted (`rowsWritten`). So a batch is one row without an index.
 * Published entries are deleted by dropping the table, which counts no row, and the few remaining ones become one new
 * row.
 */
export function sqlStage(storage: DurableObjectStorage): LogStage {
  const { sql } = storage;
  sql.exec(createBatch);
  sql.exec("CREATE TABLE IF NOT EXISTS text (id INTEGER PRIMARY KEY, value TEXT NOT NULL)");
  const ids: Readonly<Record<keyof StagedTexts, number>> = { key: 1, head: 2, named: 3 };
  const textOf = (name: keyof StagedTexts): string | undefined =>
    sql.exec<{ value: string }>("SELECT value FROM text WHERE id = ?", ids[name]).toArray()[0]
      ?.value;

  return {
    texts: () => {
      const [key, head, named] = [textOf("key"), textOf("head"), textOf("named")];
      return key !== undefined && head !== undefined ? { key, head, named } : undefined;
    },
    batches: (from) =>
      sql
        .exec<Row>(
          `SELECT * FROM batch WHERE first >= ? ORDER BY first LIMIT ${batchesAtOnce}`,
          from,
        )
        .toArray()
        .map(toBatch),
    end: () =>
      sql
        .exec<{ end: number }>("SELECT first + count AS end FROM batch ORDER BY first DESC LIMIT 1")
        .toArray()[0]?.end,
    append: (batch) => insert(sql, batch),
    save: (texts, deleteUpTo) =>
      storage.transactionSync(() => {
        for (const [name, id] of Object.entries(ids)) {
          const value = texts[name as keyof StagedTexts];
          if (value !== undefined) sql.exec("INSERT OR REPLACE INTO text VALUES (?, ?)", id, value);
        }
        if (deleteUpTo !== undefined) deletePublished(sql, deleteUpTo);
      }),
  };
}

function deletePublished(sql: SqlStorage, upTo: number): void {
  const kept = sql
    .exec<Row>("SELECT * FROM batch WHERE first + count > ? ORDER BY first", upTo)
    .toArray()
    .map(toBatch);
  if (kept.reduce((sum, { octets }) => sum + octets.length, 0) > maximumMergedOctets) {
    sql.exec("DELETE FROM batch WHERE first + count <= ?", upTo);
    return;
  }
  sql.exec("DROP TABLE batch");
  sql.exec(createBatch);
  const [first] = kept;
  if (first) insert(sql, merged(first, kept));
}

function insert(sql: SqlStorage, { first, count, octets }: StagedBatch): void {
  sql.exec("INSERT INTO batch VALUES (?, ?, ?)", first, count, octets);
}

const toBatch = ({ first, count, octets }: Row): StagedBatch => ({
  first,
  count,
  octets: new Uint8Array(octets),
});

/** Several batches as one: all hashes, then all entries. */
function merged({ first }: StagedBatch, batches: readonly StagedBatch[]): StagedBatch {
  const hashes = batches.map(({ octets, count }) => octets.subarray(0, count * Hash.octets));
  const entries = batches.map(({ octets, count }) => octets.subarray(count * Hash.octets));
  const count = batches.reduce((sum, each) => sum + each.count, 0);
  return { first, count, octets: concatBytes(...hashes, ...entries) };
}

type Octets = Uint8Array<ArrayBuffer>;

/** The part of an R2 bucket that a log needs. */
export interface Bucket {
  get(key: string): Promise<{ bytes(): Promise<Uint8Array> } | null>;
  put(key: string, value: Uint8Array, options?: R2PutOptions): Promise<unknown>;
}

/**
 * The published objects of a log in R2, below its origin. R2 is strongly consistent, and creates an
 * object only if there is none (`etagDoesNotMatch: "*"`).
 */
export function bucketObjects(bucket: Bucket, origin: string): LogObjects {
  const read = async (path: string): Promise<Octets | undefined> => {
    const object = await bucket.get(`${origin}/${path}`);
    return object ? ((await object.bytes()) as Octets) : undefined;
  };
  return {
    read,
    create: async (path, octets) => {
      await bucket.put(`${origin}/${path}`, octets, { onlyIf: { etagDoesNotMatch: "*" } });
      // Read back, because another process may have created it: the caller deletes its staged entries only if the
      // object is its own.
      return read(path);
    },
    replace: async (path, octets) => {
      await bucket.put(`${origin}/${path}`, octets);
    },
  };
}

/** Whether a binding looks like an R2 bucket. */
export function isBucket(binding: unknown): binding is Bucket {
  return typeof binding === "object" && binding !== null && "put" in binding && "get" in binding;
}
