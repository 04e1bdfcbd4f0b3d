import type { KekRing } from "../../../src/custody/kek.ts";
import type { Pause } from "../../../src/foundation/pause.ts";
import { BucketLog } from "../../../src/node/log/bucket-log.ts";
import { ObjectReader } from "../../../src/tlog/extend.ts";
import { Frontier } from "../../../src/tlog/frontier.ts";
import { openCheckpointText } from "../../../src/tlog/note/checkpoint.ts";
import { VerifierKey } from "../../../src/tlog/note/verifier-key.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { clusterLocal } from "../../testkit/pki/certificates.ts";
import { createKek } from "../../testkit/pki/sealed-record.ts";
import { logConfiguration } from "../../testkit/tlog/log-configuration.ts";
import type { MemoryBucket } from "../../testkit/tlog/memory-bucket.ts";

export const day = "2026-11-21";
export const origin = "log.test/2026";
const kek = await createKek("k1");
const { signal } = new AbortController();

interface Options {
  readonly shards?: number;
  readonly firstShard?: number;
  readonly today?: string;
  readonly keks?: KekRing;
  readonly hold?: () => void;
  readonly pause?: Pause;
}

export const octetsOf = (words: string): Uint8Array<ArrayBuffer> => new TextEncoder().encode(words);

/** What a log needs beside its bucket. It begins on {@link day}. */
export const partsOf = ({
  shards = 1,
  today = day,
  keks = [kek],
  hold = () => {},
  pause = () => new Promise(setImmediate),
}: Options = {}) => ({
  configuration: logConfiguration({ origin, shards, inceptionDate: day }),
  trustDomain: clusterLocal,
  keks: { hold: async () => hold(), ring: () => keks },
  log: createEventRecorder(),
  clock: () => new Date(`${today}T12:00:00Z`),
  pause,
});

/** A process that logs into a bucket. */
export function start(bucket: MemoryBucket, options: Options = {}) {
  const objects = bucket.process();
  const { firstShard = 0 } = options;
  const log = new BucketLog({ objects, firstShard, ...partsOf(options) });
  const append = (words: string) => appendTo(log, words);
  return { append, publish: log.publish, log, objects, kill: objects.kill };
}

export const appendTo = ({ issuanceLog }: Pick<BucketLog, "issuanceLog">, words: string) =>
  issuanceLog.append(octetsOf(words), signal);

/** The published entries of a shard, verified as any reader does. */
export async function published(
  { publishedLog }: Pick<BucketLog, "publishedLog">,
  shard = "0",
): Promise<string[]> {
  const read = (path: string) => publishedLog.read(shard, path);
  const found = (await publishedLog.shards()).find((each) => each.shard === shard);
  const text = new TextDecoder().decode(await read("checkpoint"));
  const tree = await openCheckpointText(text, VerifierKey.parse(found?.verifierKey ?? ""));
  const entries: string[] = [];
  await ObjectReader.extend(Frontier.empty(), tree, read, (_, entry) => {
    entries.push(new TextDecoder().decode(entry));
  });
  return entries;
}
