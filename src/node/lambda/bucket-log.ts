import type { EventLog } from "../../ca/issuance/audit-event.ts";
import {
  type IssuanceLog,
  logUnavailable,
  toLogUnavailable,
} from "../../ca/issuance/issuance-log.ts";
import type { LogConfiguration } from "../../config/log-keys.ts";
import type { HeldKeks } from "../../custody/kek.ts";
import { logKeysFor } from "../../custody/log-key.ts";
import { causeOf, messageOf } from "../../foundation/errors.ts";
import {
  type Backoff,
  backoffMilliseconds,
  type Pause,
  pause as systemPause,
} from "../../foundation/pause.ts";
import { Semaphore } from "../../foundation/shared-work.ts";
import type { TrustDomain } from "../../pki/spiffe-id.ts";
import { fetchTrusting } from "../../program/http/node-fetch.ts";
import { LogRefusal } from "../../tlog/sequencer/open-log.ts";
import { Sequencer } from "../../tlog/sequencer/sequencer.ts";
import { publishVerifierKey, readVerifierKey } from "../../tlog/sequencer/storage.ts";
import { tileWidth } from "../../tlog/tile.ts";
import { askConfigured } from "../../tlog/witness/ask-witnesses.ts";
import type { PublishedLog } from "../../transport/http/log-routes.ts";
import { hashEntry } from "../log/node-log.ts";
import { type ConditionalObjects, ObjectStage, Overtaken, publishedObjects } from "./staged-log.ts";

/** The log of all instances that share a bucket. */
export interface BucketLog {
  readonly issuanceLog: IssuanceLog;
  readonly publishedLog: PublishedLog;
  /** Publishes what is staged. Nothing does so between two requests of an instance. */
  readonly publish: () => Promise<void>;
}

/** All that the log of an instance is made of. */
interface BucketLogParts {
  readonly objects: ConditionalObjects;
  readonly configuration: LogConfiguration;
  readonly trustDomain: TrustDomain;
  readonly keks: Pick<HeldKeks, "hold" | "ring">;
  readonly log: EventLog;
  readonly clock: () => Date;
  readonly pause?: Pause | undefined;
}

/** The one log of a bucket; on other platforms every process has its own. */
const shard = "0";

/** Other instances come first again and again, where many append at the same time. */
const maximumAttempts = 30;
const backoff: Backoff = { firstMilliseconds: 20, longestMilliseconds: 640, spread: [0, 1] };

/** A stage of more entries makes every append slow. */
const maximumUnpublished = tileWidth;

/** A log as it was read, and the sequencer that goes on from there. */
interface OpenedLog {
  readonly stage: ObjectStage;
  readonly sequencer: Sequencer;
}

/**
 * The log in a bucket, which any number of instances append to. Each reads the stage, sequences its entry, and writes
 * the stage over the version that it has read: of two at once one comes first, and the other begins anew. An entry is
 * durable, and its certificate may go out, once that write is confirmed.
 */
export function openBucketLog(parts: BucketLogParts): BucketLog {
  const { configuration, objects, log, pause = systemPause } = parts;
  const origin = `${configuration.origin}/${shard}`;
  const oneAtATime = new Semaphore(1);
  let latest: OpenedLog | undefined;
  let refused: string | undefined;
  let trouble: string | undefined;

  /** Repeats work for as long as others are quicker. What has failed otherwise is read anew as well. */
  async function withLog<T>(work: (opened: OpenedLog) => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      try {
        latest ??= await open(parts, origin);
        refused = undefined;
        return await work(latest);
      } catch (error) {
        latest = undefined;
        if (error instanceof LogRefusal) refused = error.message;
        if (!(error instanceof Overtaken) || attempt >= maximumAttempts) throw error;
        await pause(backoffMilliseconds(backoff, Math.min(attempt, 6), Math.random()));
      }
    }
  }

  const append: IssuanceLog["append"] = (entry, _signal, authorities) =>
    oneAtATime.run(async () => {
      try {
        const position = await withLog(async ({ sequencer, stage }) => {
          const result = await sequencer.append(entry, authorities);
          if (!("index" in result)) throw logUnavailable(result.detail);
          await stage.commit();
          return { origin, index: result.index };
        });
        if (isLong(latest)) await publish().catch(() => {});
        return position;
      } catch (error) {
        // `/readyz` is for strangers as well: no address of the bucket, which the audit event has.
        refused ??= causeOf(error);
        throw toLogUnavailable(error);
      }
    });

  /** It reads the log anew, and so does the next work: a sequencer does not know what others append meanwhile. */
  async function publish(): Promise<void> {
    latest = undefined;
    try {
      await withLog(async ({ sequencer, stage }) => {
        if (sequencer.isBehind) await sequencer.publish();
        await stage.commit();
      });
      trouble = undefined;
    } catch (error) {
      trouble = `the issuance log is not published (${causeOf(error)})`;
      log.operation({ event: "log-not-published", level: "error", detail: messageOf(error) });
      throw error;
    } finally {
      latest = undefined;
    }
  }

  const refusal = (): string | undefined =>
    refused === undefined ? undefined : `the issuance log takes no entry: ${refused}`;
  const read = async (path: string): Promise<Uint8Array<ArrayBuffer> | undefined> =>
    (await objects.read(path))?.octets;
  return {
    issuanceLog: {
      ...{ mode: configuration.mode, append, refusal },
      troubles: () => [trouble, refusal()].filter((each) => each !== undefined),
    },
    publishedLog: {
      shards: async () => {
        const verifierKey = await readVerifierKey(read);
        return verifierKey === undefined ? [] : [{ shard, origin, verifierKey }];
      },
      read: async (name, path) => (name === shard ? read(path) : undefined),
      readers: configuration.readers,
      hasPublicTiles: configuration.hasPublicTiles,
    },
    publish: () => oneAtATime.run(publish),
  };
}

const isLong = (opened: OpenedLog | undefined): boolean =>
  opened !== undefined &&
  opened.stage.batches(0).reduce((sum, { count }) => sum + count, 0) >= 2 * maximumUnpublished;

/**
 * Reads the log, or begins one.
 *
 * @throws Overtaken if another instance has published between two reads, LogRefusal.
 */
async function open(parts: BucketLogParts, origin: string): Promise<OpenedLog> {
  const { configuration, objects, trustDomain, keks, clock } = parts;
  await keks.hold(clock());
  const stage = await ObjectStage.read(objects);
  const published = publishedObjects(objects, stage);
  const isNew = stage.texts() === undefined;
  try {
    const sequencer = await Sequencer.open({
      ...{ origin, stage, hashEntry, objects: published },
      keys: logKeysFor(origin, trustDomain, keks.ring()),
      mayBegin: () => clock().toISOString().slice(0, 10) === configuration.inceptionDate,
      yieldTurn: () => new Promise(setImmediate),
      nextTurn: setImmediate,
      askWitnesses: askConfigured(configuration.witnesses, {
        fetch: fetchTrusting(undefined),
        read: published.read,
        log: parts.log,
      }),
    });
    if (isNew) await publishVerifierKey(published, sequencer);
    return { stage, sequencer };
  } catch (error) {
    const isOld = error instanceof LogRefusal && !(await stage.isCurrent());
    throw isOld ? new Overtaken("another instance publishes the log", { cause: error }) : error;
  }
}
