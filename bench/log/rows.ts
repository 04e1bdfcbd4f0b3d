import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Kek } from "../../src/custody/kek.ts";
import { NodeLog } from "../../src/node/log/node-log.ts";
import { TrustDomain } from "../../src/pki/spiffe-id.ts";
import { bundleWorker } from "../edge/bundle.ts";
import { median } from "../measurement/median.ts";
import type { Row } from "../measurement/report.ts";
import { bucketLogRows } from "./bucket-rows.ts";
import { searchRows } from "./search-rows.ts";
import { workerLogRows } from "./worker-rows.ts";

const waiting = 64;
const rounds = 40;
const entriesPerRound = 2560;
const entryOctets = 620;

/** CPU of this process for one entry in microseconds, its publication included: the median of rounds. */
async function nodeMicroseconds(): Promise<number> {
  const storeDirectory = mkdtempSync(join(tmpdir(), "rampart-bench-"));
  const today = new Date().toISOString().slice(0, 10);
  const kek = await Kek.import("k1", crypto.getRandomValues(new Uint8Array(32)));
  const log = await NodeLog.open({
    storeDirectory,
    configuration: {
      origin: "log.example.com/bench",
      mode: "required",
      inceptionDate: today,
      intervalSeconds: 1,
      shards: 1,
      witnesses: undefined,
      readers: [],
      hasPublicTiles: false,
    },
    shard: 0,
    trustDomain: TrustDomain.parse("cluster.local") as TrustDomain,
    keks: { hold: () => undefined, ring: () => [kek] },
    log: { audit: () => {}, operation: () => {} },
    clock: () => new Date(),
  });
  const { signal } = new AbortController();
  const entry = new Uint8Array(entryOctets);
  const round = async (): Promise<number> => {
    const before = process.cpuUsage();
    let left = entriesPerRound;
    const caller = async (): Promise<void> => {
      while (left-- > 0) await log.issuanceLog.append(entry, signal);
    };
    await Promise.all(Array.from({ length: waiting }, caller));
    const { user, system } = process.cpuUsage(before);
    return (user + system) / entriesPerRound;
  };
  const costs: number[] = [];
  for (let i = 0; i < rounds; i++) costs.push(await round());
  await log.end();
  rmSync(storeDirectory, { recursive: true });
  return median(costs.slice(rounds / 4));
}

/** What the issuance log costs where it is on. */
export async function logRows(bundleKibibytes: number): Promise<Row[]> {
  const { gzipKibibytes } = bundleWorker("src/worker/main-with-log.ts");
  return [
    ...(await workerLogRows()),
    ...(await searchRows()),
    ...(await bucketLogRows()),
    {
      name: "log append on Node, 64 waiting, CPU",
      value: await nodeMicroseconds(),
      unit: "µs",
      budget: 40,
    },
    {
      name: "bundle of the log, gzip, on top",
      value: gzipKibibytes - bundleKibibytes,
      unit: "KiB",
      budget: 12,
    },
  ];
}
