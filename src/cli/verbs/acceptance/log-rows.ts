import { LogEntry } from "../../../ca/issuance/log-entry.ts";
import { OperatorError } from "../../../foundation/errors.ts";
import { concatBytes } from "../../../foundation/octets.ts";
import { pause } from "../../../foundation/pause.ts";
import { Bytes, fingerprintOf } from "../../../pki/encoding/bytes.ts";
import { ObjectReader } from "../../../tlog/extend.ts";
import { Frontier } from "../../../tlog/frontier.ts";
import { LogError } from "../../../tlog/log-error.ts";
import type { Checkpoint } from "../../../tlog/note/checkpoint.ts";
import { LogPolicy } from "../../../tlog/note/policy.ts";
import { hashesAt, Tile } from "../../../tlog/tile.ts";
import type { Environment } from "../../terminal/terminal.ts";
import { type LogSource, openSource, policyOfKey } from "../log/log-source.ts";
import type { Deployed } from "./deployed.ts";
import { broken, good, type Measurement, type Row, skipped } from "./row.ts";

/** A shard of the log, and its verified tree at the latest look. */
interface Shard {
  readonly source: LogSource;
  readonly policy: LogPolicy;
  frontier: Frontier;
}

/**
 * Makes the rows about the issuance log. `after` compares it with what `before` has measured; both are skipped where no
 * log is readable.
 * @param ca The roots for TLS; by default the system's.
 */
export function logRows(
  ca: string | undefined,
  waitSeconds: number,
): { readonly before: Row; readonly after: Row } {
  let shards: readonly Shard[] = [];
  const page = "rampart docs issuance-log";
  const before: Row = {
    name: "log-before",
    expect: "Each shard has a checkpoint that its key has signed, over tiles that make its root",
    why: "The rows below are compared with this state of the log.",
    page,
    async measure({ parts: { url, terminal } }) {
      try {
        shards = await openShards(`${url}/log`, ca, terminal.environment);
      } catch (error) {
        // The log may require a token that this caller lacks.
        if (error instanceof OperatorError) return skipped(error.message);
        throw error;
      }
      if (shards.length === 0) return skipped("LOG_ORIGIN is not set, or is not published here");
      const sizes = shards.map(({ frontier }) => frontier.size);
      return good(`shards: ${shards.length}, entries: ${sizes.join(", ")}`);
    },
  };
  const after: Row = {
    name: "log-after",
    expect: "The log extends its state before, and has every certificate of these rows",
    why: "A certificate that the log lacks was signed by a stolen key, or the log was rewritten.",
    page,
    measure: (deployed) =>
      shards.length === 0
        ? skipped("there was no log before")
        : measureEntries(deployed, shards, waitSeconds),
  };
  return { before, after };
}

async function openShards(
  url: string,
  ca: string | undefined,
  environment: Environment,
): Promise<readonly Shard[]> {
  const open = (shard: string) =>
    openSource({ url: shard, ...(ca !== undefined && { ca }) }, environment);
  const shards: Shard[] = [];
  for (const name of (await (await open(url))?.otherShards()) ?? []) {
    const source = await open(name);
    const key = await source?.announcedKey();
    if (!source || key === undefined) continue;
    const policy = policyOfKey(key);
    const { size, root } = await readCheckpoint({ source, policy });
    const frontier = await frontierOf(size, source.read);
    if (!Bytes.equal(frontier.root(), root))
      throw new LogError("content", `the tiles of ${name} do not make its root`);
    shards.push({ source, policy, frontier });
  }
  return shards;
}

/** Reads the right edge of a tree from its partial tiles. */
async function frontierOf(size: number, read: ObjectReader): Promise<Frontier> {
  const octets: Uint8Array[] = [];
  for (let level = 0; hashesAt(level, size) > 0; level++) {
    const tile = Tile.in(size, level, Math.floor(hashesAt(level, size) / Tile.fullWidth));
    if (tile) octets.push(await ObjectReader.readTile(tile, read));
  }
  return Frontier.fromBytes(size, concatBytes(...octets));
}

async function readCheckpoint({ source, policy }: Omit<Shard, "frontier">): Promise<Checkpoint> {
  const octets = await source.read(Tile.checkpointPath);
  if (!octets) throw new LogError("missing", `${source.url} has no checkpoint`);
  return (await LogPolicy.open(new TextDecoder().decode(octets), policy)).checkpoint;
}

/** The most new entries that this row reads: a log that grows faster is left to `rampart log follow`. */
const mostEntries = 100_000;

async function measureEntries(
  { issued }: Deployed,
  shards: readonly Shard[],
  waitSeconds: number,
): Promise<Measurement> {
  const missing = new Set(issued.map(([leaf]) => fingerprintOf(leaf.raw)));
  const visit = (_: number, octets: Uint8Array): void => {
    const certificate = LogEntry.certificateOf(LogEntry.parse(octets));
    if (certificate) missing.delete(fingerprintOf(certificate));
  };
  for (let look = 0; look <= waitSeconds; look++) {
    for (const shard of shards) {
      const { frontier, source } = shard;
      const checkpoint = await readCheckpoint(shard);
      if (checkpoint.size - frontier.size > mostEntries)
        return skipped("the log grows too fast for this row: read it by `rampart log follow`");
      shard.frontier = await ObjectReader.extend(frontier, checkpoint, source.read, visit);
    }
    if (missing.size === 0)
      return good(`all ${issued.length} certificates, proved by the signed root`);
    await pause(1000);
  }
  return broken(
    `${missing.size} of ${issued.length} certificates are not in the log: unless LOG_INTERVAL is longer than --wait, look`,
  );
}
