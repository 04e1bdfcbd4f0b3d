import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { messageOf } from "../foundation/errors.ts";
import { Semaphore } from "../foundation/work/semaphore.ts";
import {
  type LogEntry,
  type SearchLogResponse,
  SearchLogResponseSchema,
} from "../gen/rampart/status/v1/status_pb.ts";
import { parseBundle } from "../tlog/bundle.ts";
import { readTile } from "../tlog/extend.ts";
import { parseCheckpoint } from "../tlog/note/checkpoint.ts";
import { parseNote } from "../tlog/note/note.ts";
import { checkpointPath, tileIn, tileWidth } from "../tlog/tile.ts";
import type { LogShard, PublishedLog } from "../transport/http/log-routes.ts";
import { foundEntry, mayMatch, parseQuery, type Query } from "./log-query.ts";

/** A question to a log. */
export interface LogQuestion {
  readonly query: string;
  readonly limit: number;
}

/** Finds entries of an issuance log. */
export interface LogSearch {
  /**
   * @throws ConnectError `InvalidArgument`, `ResourceExhausted` while others search, `Unavailable` for a
   *   log that cannot be read.
   */
  readonly search: (question: LogQuestion) => Promise<SearchLogResponse>;
  /** The newest entries, for counting. @throws ConnectError `Unavailable` */
  readonly newest: () => Promise<SearchLogResponse>;
}

const usualLimit = 20;
const maximumLimit = 100;
const countedEntries = 512;

/** The bundles that one search reads, of all shards together: each has up to 256 entries. */
const maximumBundles = 16;
const maximumSearches = 2;

/**
 * The newest entries of a log that match, among at most 4096. It shows what the storage holds and proves
 * nothing: `rampart log` verifies.
 */
export function createLogSearch(log: PublishedLog): LogSearch {
  const room = new Semaphore(maximumSearches);
  return {
    search: async ({ query, limit }) => {
      const parsed = parseQuery(query);
      const most = Math.min(limit || usualLimit, maximumLimit);
      const searching = room.tryRun(() => searchLog(log, parsed, most));
      if (!searching) {
        throw new ConnectError("others search the log: try again", Code.ResourceExhausted);
      }
      return searching;
    },
    newest: () => searchLog(log, undefined, countedEntries),
  };
}

/** Whatever is wrong with the storage must not take the rest of the page away. */
async function searchLog(...question: Parameters<typeof searchShards>): Promise<SearchLogResponse> {
  try {
    return await searchShards(...question);
  } catch (error) {
    const text = `the log cannot be read: ${messageOf(error)}`;
    throw new ConnectError(text, Code.Unavailable, undefined, undefined, error);
  }
}

async function searchShards(
  log: PublishedLog,
  query: Query | undefined,
  most: number,
): Promise<SearchLogResponse> {
  const shards = (await log.shards()).slice(0, maximumBundles);
  const bundles = Math.max(1, Math.floor(maximumBundles / Math.max(1, shards.length)));
  const found = await Promise.all(
    shards.map((shard) => searchShard(log, shard, { query, most, bundles })),
  );
  return create(SearchLogResponseSchema, {
    entries: found
      .flatMap(({ entries }) => entries)
      .toSorted(newestFirst)
      .slice(0, most),
    searched: BigInt(found.reduce((sum, { searched }) => sum + searched, 0)),
    total: BigInt(found.reduce((sum, { size }) => sum + size, 0)),
  });
}

interface ShardSearch {
  readonly query: Query | undefined;
  readonly most: number;
  readonly bundles: number;
}

interface ShardResult {
  readonly entries: readonly LogEntry[];
  readonly searched: number;
  readonly size: number;
}

async function searchShard(
  log: PublishedLog,
  { shard, origin }: LogShard,
  { query, most, bundles }: ShardSearch,
): Promise<ShardResult> {
  const read = (path: string): Promise<Uint8Array | undefined> => log.read(shard, path);
  const size = await sizeOf(await read(checkpointPath));
  const entries: LogEntry[] = [];
  let searched = 0;
  const last = Math.ceil(size / tileWidth) - 1;
  for (let i = last; i >= 0 && i > last - bundles && entries.length < most; i--) {
    const tile = tileIn(size, "entries", i);
    if (!tile) break;
    const bundle = parseBundle(await readTile(tile, read), tile.width);
    for (let at = bundle.length - 1; at >= 0 && entries.length < most; at--) {
      const octets = bundle[at];
      if (!octets) break;
      searched++;
      if (query && !mayMatch(octets, query)) continue;
      const entry = foundEntry(octets, { origin, index: i * tileWidth + at }, query);
      if (entry) entries.push(entry);
    }
  }
  return { entries, searched, size };
}

async function sizeOf(checkpoint: Uint8Array | undefined): Promise<number> {
  if (!checkpoint) return 0;
  return parseCheckpoint(parseNote(new TextDecoder().decode(checkpoint)).text).size;
}

function newestFirst(a: LogEntry, b: LogEntry): number {
  const [x, y] = [a, b].map(({ at }) => [at?.seconds ?? 0n, BigInt(at?.nanos ?? 0)] as const);
  return Number((y?.[0] ?? 0n) - (x?.[0] ?? 0n)) || Number((y?.[1] ?? 0n) - (x?.[1] ?? 0n));
}
