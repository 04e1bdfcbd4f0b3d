import { messageOf } from "../foundation/errors.ts";
import { Semaphore } from "../foundation/shared-work.ts";
import type { Bytes } from "../pki/encoding/bytes.ts";
import { SerialNumber } from "../pki/encoding/serial-number.ts";
import { ObjectReader } from "../tlog/extend.ts";
import { Checkpoint } from "../tlog/note/checkpoint.ts";
import { parseNote } from "../tlog/note/note.ts";
import { Tile } from "../tlog/tile.ts";
import { Distrust, type StatedDistrust } from "./distrust.ts";
import { type FoundEntry, type ReadEntry, readEntry } from "./found-entry.ts";
import { LogSearchError } from "./log-search-error.ts";

/** Reads the published objects of an issuance log. */
export interface SearchedLog {
  readonly shards: () => Promise<readonly LogShard[]>;
  /** Reads an object; `undefined` if there is none. @param path Of a bundle or the checkpoint. */
  readonly read: (shard: string, path: string) => Promise<Uint8Array | undefined>;
}

interface LogShard {
  readonly shard: string;
  readonly origin: string;
}

/** A search in the issuance log. */
export interface LogQuestion {
  /** A part of a name, of a serial number, or of a cluster, node or pod; empty for the newest entries. */
  readonly query: string;
  /** The most entries of the answer; 20 if it is zero, and never more than 100. */
  readonly limit: number;
  readonly now: Date;
}

/** The entries that a search has found, the newest first. */
export interface FoundEntries {
  readonly entries: readonly FoundEntry[];
  /** How many entries were examined, and how many the log has. */
  readonly searched: number;
  readonly total: number;
}

/** Loads revocations and denials. It rejects while they cannot be read. */
type LoadDistrust = (now: Date) => Promise<StatedDistrust>;

/** A log whose entries can be searched, with what is stated against them. */
export type SearchableLog = (statementsAt: LoadDistrust) => LogSearch;

const usualLimit = 20;
const maximumLimit = 100;

/** The bundles that one search reads, of all shards together: each has up to 256 entries. */
const maximumBundles = 16;
const maximumSearches = 2;
const maximumEntries = maximumBundles * Tile.fullWidth;

/**
 * Finds the newest matching entries among the last 4096 or fewer of a log. Only its first 16 shards are read. Unlike
 * `rampart log`, it does not verify what the storage contains.
 */
export class LogSearch {
  readonly #log: SearchedLog;
  readonly #statementsAt: LoadDistrust;
  readonly #capacity = new Semaphore(maximumSearches);

  constructor(log: SearchedLog, statementsAt: LoadDistrust) {
    this.#log = log;
    this.#statementsAt = statementsAt;
  }

  /** Makes a log searchable, for a console; `undefined` for no log. */
  static in(log: SearchedLog | undefined): SearchableLog | undefined {
    return log && ((statementsAt) => new LogSearch(log, statementsAt));
  }

  /**
   * Finds the newest entries that match, each with what is stated against it.
   * @throws LogSearchError `query`, `busy` while two searches run, `unreadable` for the log or the store.
   */
  async search({ query, limit, now }: LogQuestion): Promise<FoundEntries> {
    const parsed = parseQuery(query);
    const most = Math.min(limit || usualLimit, maximumLimit);
    const searching = this.#capacity.tryRun(() =>
      orUnreadable("the log", () => searchShards(this.#log, parsed, most)),
    );
    if (!searching) throw new LogSearchError("busy", "others search the log: try again");
    // If the statements cannot be read, the search fails, because an unmarked certificate would seem to be trusted.
    const statements = orUnreadable("the store", () => this.#statementsAt(now));
    const [found, stated] = await Promise.all([searching, statements]);
    const entries = found.entries.map(({ octets, ...entry }): FoundEntry => {
      return { ...entry, distrust: Distrust.of(octets, stated, now) };
    });
    return { ...found, entries };
  }

  /** The newest 4096 entries, for counting, without statements. @throws LogSearchError `unreadable`. */
  newest(): Promise<FoundEntries> {
    return orUnreadable("the log", () => searchShards(this.#log, undefined, maximumEntries));
  }
}

/** Converts any failure into LogSearchError `unreadable`, so that the rest of a page is still shown. */
async function orUnreadable<T>(what: string, read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (cause) {
    const message = `${what} cannot be read: ${messageOf(cause)}`;
    throw new LogSearchError("unreadable", message, { cause });
  }
}

type ReadEntries = Omit<FoundEntries, "entries"> & { readonly entries: readonly ReadEntry[] };

async function searchShards(
  log: SearchedLog,
  query: Query | undefined,
  most: number,
): Promise<ReadEntries> {
  const shards = (await log.shards()).slice(0, maximumBundles);
  const bundles = Math.max(1, Math.floor(maximumBundles / Math.max(1, shards.length)));
  const found = await Promise.all(
    shards.map((shard) => searchShard(log, shard, query, { most, bundles })),
  );
  return {
    entries: found
      .flatMap(({ entries }) => entries)
      .toSorted((a, b) => b.at.getTime() - a.at.getTime())
      .slice(0, most),
    searched: found.reduce((sum, { searched }) => sum + searched, 0),
    total: found.reduce((sum, { total }) => sum + total, 0),
  };
}

async function searchShard(
  log: SearchedLog,
  { shard, origin }: LogShard,
  query: Query | undefined,
  { most, bundles }: Record<"most" | "bundles", number>,
): Promise<ReadEntries> {
  const read = (path: string): Promise<Uint8Array | undefined> => log.read(shard, path);
  const total = sizeOf(await read(Tile.checkpointPath));
  const entries: ReadEntry[] = [];
  let searched = 0;
  const last = Math.ceil(total / Tile.fullWidth) - 1;
  for (let i = last; i >= 0 && i > last - bundles && entries.length < most; i--) {
    const tile = Tile.in(total, "entries", i);
    if (!tile) break;
    const bundle = Tile.parseBundle(await ObjectReader.readTile(tile, read), tile.width);
    for (let at = bundle.length - 1; at >= 0 && entries.length < most; at--) {
      const octets = bundle[at];
      if (!octets) break;
      searched++;
      if (query && !mayMatch(octets, query)) continue;
      const entry = readEntry(octets, { origin, index: i * Tile.fullWidth + at });
      if (entry && (!query || matches(entry, query))) entries.push(entry);
    }
  }
  return { entries, searched, total };
}

function sizeOf(checkpoint: Uint8Array | undefined): number {
  if (!checkpoint) return 0;
  return Checkpoint.parse(parseNote(new TextDecoder().decode(checkpoint)).text).size;
}

/** A text to search for, in lower case, and as a serial number if it may be one. */
interface Query {
  readonly text: string;
  readonly serial: string | undefined;
}

const maximumLength = 256;

/** Queries that can match no field. They are refused, because an empty result would look like an answer. */
const unfindable =
  /\*|^(?:cluster|node|pod|serial|spiffe-?id|namespace|account|token(?:-?id)?|name)[:=]/;

/** @returns `undefined` for an empty text, which every entry matches. @throws LogSearchError */
function parseQuery(input: string): Query | undefined {
  const text = input.trim().toLowerCase();
  if (text === "") return undefined;
  if (text.length > maximumLength) {
    throw new LogSearchError("query", `a query has at most ${maximumLength} characters`);
  }
  if (unfindable.test(text)) {
    throw new LogSearchError("query", "a query is a part of a name, without a key or a glob");
  }
  // At least five digits: an operator may leave out the first of six, which is 0 in Rampart's serial numbers.
  const digits = SerialNumber.digits(SerialNumber.typed(text));
  return { text, serial: /^[0-9a-f]{5,}$/.test(digits) ? digits : undefined };
}

const latin1 = new TextDecoder("latin1");

/** Whether the octets of an entry contain the text, so that most others need not be parsed. */
function mayMatch(octets: Bytes, { text, serial }: Query): boolean {
  return serial !== undefined || latin1.decode(octets).toLowerCase().includes(text);
}

function matches(entry: FoundEntry, { text, serial }: Query): boolean {
  const { name, cluster, node, pod, serialNumber, audiences, claimed } = entry;
  if (serial !== undefined && serialNumber.includes(serial)) return true;
  return [name, cluster, node, pod, ...audiences, ...claimed].some((field) =>
    field.toLowerCase().includes(text),
  );
}
