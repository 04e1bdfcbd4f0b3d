import type { Context, Hono } from "hono";
import { fingerprintOf } from "../../pki/encoding/bytes.ts";
import { LogObjects } from "../../tlog/sequencer/storage.ts";
import { Tile } from "../../tlog/tile.ts";

/** One shard of a log, as its readers find it. */
interface LogShard {
  /** The number of the shard: the last segment of its prefix below `/log/`. */
  readonly shard: string;
  readonly origin: string;
  readonly verifierKey: string;
}

/** An issuance log as its storage has it, and who may read it. */
export interface ReadableLog {
  readonly shards: () => Promise<readonly LogShard[]>;
  /** @param path Of a tile, a bundle or the checkpoint. */
  readonly read: (shard: string, path: string) => Promise<Uint8Array<ArrayBuffer> | undefined>;
  /** Bearer tokens of readers. */
  readonly readers: readonly string[];
  /** Whether anybody may read the checkpoint and the hashes. Entries always need a token. */
  readonly hasPublicTiles: boolean;
}

/** The shards of a log in their storage, and who may read them. */
interface StoredLog extends Omit<ReadableLog, "shards"> {
  readonly origin: string;
  /** The shards that may have begun, in their order. */
  readonly names: () => readonly string[] | Promise<readonly string[]>;
}

/** The published objects of an issuance log. */
export interface PublishedLog extends ReadableLog {
  /** Adds the routes of the log (C2SP tlog-tiles): `/log/logs.json`, and each shard under `/log/<shard>/`. */
  readonly addRoutes: (app: Hono) => void;
}

/** Publishes logs. */
export const PublishedLog = {
  /** Makes a log publishable; only `addRoutes` serves it. */
  publish: (log: ReadableLog): PublishedLog => ({
    ...log,
    addRoutes: (app) => addLogRoutes(app, log),
  }),

  /** Makes a stored log publishable. Shards without a stored verifier key, which have not begun, are left out. */
  publishStored({ origin, names, ...log }: StoredLog): PublishedLog {
    const shardNamed = async (shard: string): Promise<LogShard[]> => {
      const verifierKey = await LogObjects.readVerifierKey((path) => log.read(shard, path));
      return verifierKey === undefined
        ? []
        : [{ shard, origin: `${origin}/${shard}`, verifierKey }];
    };
    const shards = async () => (await Promise.all((await names()).map(shardNamed))).flat();
    return PublishedLog.publish({ ...log, shards });
  },
};

const shardPattern = /^[0-9]{1,3}$/;
const prefix = /^\/log\/([^/]*)\/(.*)$/;

function addLogRoutes(app: Hono, log: ReadableLog): void {
  app.get("/log/logs.json", async (c) => {
    if (!log.hasPublicTiles && !(await isReader(c, log))) return unauthorized(c);
    return c.json(await log.shards(), 200, { "cache-control": "no-cache" });
  });
  app.get("/log/*", async (c) => {
    const [, shard = "", path = ""] = prefix.exec(c.req.path) ?? [];
    const tile = Tile.parsePath(path);
    if (!shardPattern.test(shard) || !(tile || path === Tile.checkpointPath)) return c.notFound();
    const isPublic = log.hasPublicTiles && tile?.level !== "entries";
    if (!isPublic && !(await isReader(c, log))) return unauthorized(c);
    const octets = await log.read(shard, path);
    if (!octets) return c.text("not found\n", 404, { "cache-control": "no-store" });
    return c.body(octets, 200, tile ? tileHeaders(isPublic) : checkpointHeaders);
  });
}

const tileHeaders = (isPublic: boolean): Record<string, string> => ({
  "content-type": "application/octet-stream",
  "cache-control": `${isPublic ? "public" : "private"}, max-age=31536000, immutable`,
});

const checkpointHeaders = {
  "content-type": "text/plain; charset=utf-8",
  "cache-control": "no-cache",
};

const unauthorized = (c: Context): Response =>
  c.text("a reader of the log needs its bearer token\n", 401, { "www-authenticate": "Bearer" });

/** Whether a request has the token of a reader. Compares digests, so that the time reveals nothing of a token. */
function isReader(c: Context, { readers }: ReadableLog): boolean {
  const [, token] = /^Bearer (\S+)$/.exec(c.req.header("authorization") ?? "") ?? [];
  if (token === undefined) return false;
  const shown = digestOf(token);
  return readers.map(digestOf).includes(shown);
}

const digestOf = (token: string): string => fingerprintOf(new TextEncoder().encode(token));
