import { join } from "node:path";
import { Kek } from "../../../src/custody/kek.ts";
import { readObject } from "../../../src/node/log/log-storage.ts";
import { logDirectory, NodeLog } from "../../../src/node/log/node-log.ts";
import { ObjectReader } from "../../../src/tlog/extend.ts";
import { LogProof } from "../../../src/tlog/proof.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { clusterLocal } from "../../testkit/pki/certificates.ts";
import { logConfiguration } from "../../testkit/tlog/log-configuration.ts";
import { entryAt } from "../../testkit/tlog/trees.ts";

export const origin = "log.rampart.test/interop";

/** A log of `serve` in a folder, with its vector entries, and what readers need of it. */
export type WrittenLog = Awaited<ReturnType<typeof writeLog>>;

const kekOctets = crypto.getRandomValues(new Uint8Array(32));

const entriesAtOnce = 1500;
const today = new Date().toISOString().slice(0, 10);

/** Writes a log as `rampart serve` does. */
export async function writeLog(storeDirectory: string, size: number, witnesses?: string) {
  const log = createEventRecorder();
  const { signal } = new AbortController();
  const kek = await Kek.import("k1", kekOctets);
  const opened = await NodeLog.open({
    storeDirectory,
    configuration: logConfiguration({
      origin,
      inceptionDate: today,
      witnesses,
    }),
    shard: 0,
    trustDomain: clusterLocal,
    keks: { hold: () => undefined, ring: () => [kek] },
    log,
    clock: () => new Date(),
  });
  for (let at = 0; at < size; at += entriesAtOnce) {
    const count = Math.min(entriesAtOnce, size - at);
    await Promise.all(
      Array.from({ length: count }, (_, i) => opened.issuanceLog.append(entryAt(at + i), signal)),
    );
  }
  await opened.end();
  const { read, shards } = opened.publishedLog;
  const [shard] = await shards();
  return {
    folder: join(logDirectory(storeDirectory, origin), "0/public"),
    verifierKey: shard?.verifierKey ?? "",
    checkpoint: new TextDecoder().decode(await read("0", "checkpoint")),
    /** The names of the witnesses that did not cosign, and why. */
    refused: log.operations,
  };
}

/** The `.tlog-proof` of an entry, made from the files of a log. */
export async function proofOf(
  folder: string,
  checkpoint: string,
  size: number,
  index: number,
): Promise<string> {
  const hashes = await LogProof.proveInclusion(size, index, (tile) =>
    ObjectReader.readTile(tile, (path) => readObject(join(folder, path))),
  );
  return LogProof.format({ index, hashes, checkpoint, extra: entryAt(index) });
}
