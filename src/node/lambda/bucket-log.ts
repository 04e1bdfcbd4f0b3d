import {
  type IssuanceLog,
  type LogPosition,
  logUnavailable,
  toLogUnavailable,
} from "../../ca/issuance/issuance-log.ts";
import { recordingIn } from "../../ca/issuance/record-issuance.ts";
import { backoffs, retry } from "../../foundation/backoff.ts";
import { ConfigurationError, causeOf } from "../../foundation/errors.ts";
import { OperationLog } from "../../foundation/events.ts";
import { type Fetch, FetchError } from "../../foundation/fetch.ts";
import { Semaphore } from "../../foundation/shared-work.ts";
import { LogRefusal } from "../../tlog/sequencer/open-log.ts";
import type { Sequencer } from "../../tlog/sequencer/sequencer.ts";
import {
  type LogObjects,
  publishVerifierKey,
  readVerifierKey,
} from "../../tlog/sequencer/storage.ts";
import { tileWidth } from "../../tlog/tile.ts";
import { type PublishedLog, publishLog } from "../../transport/http/log-routes.ts";
import { type LogParts, openSequencer } from "../log/node-log.ts";
import type { BucketAnswer } from "../stores/bucket-client.ts";
import { createSteadyClient } from "../stores/bucket-promises.ts";
import type { BucketPlace } from "../stores/store-place.ts";
import { type ConditionalObjects, ObjectStage, Overtaken, publishedObjects } from "./staged-log.ts";

interface BucketLogParts extends LogParts {
  readonly objects: ConditionalObjects;
}

/** The one log of a bucket; on other platforms every process has its own. */
const shard = "0";

/** How often a write is attempted: with many appending instances, others come first again and again. */
const maximumAttempts = 30;

/** A stage of more entries makes every append slow. */
const maximumUnpublished = tileWidth;

/** A log as it was read from the bucket, and the sequencer that continues it. */
interface OpenedLog {
  readonly stage: ObjectStage;
  readonly objects: LogObjects;
  readonly sequencer: Sequencer;
}

/**
 * The log in a bucket, which any number of instances append to. Each reads the stage, sequences its entry, and writes
 * the stage over the version that it has read: of two at once one comes first, and the other begins anew. An entry is
 * durable, and its certificate may go out, once that write is confirmed.
 */
export class BucketLog {
  readonly issuanceLog: IssuanceLog;
  readonly publishedLog: PublishedLog;
  readonly #parts: BucketLogParts;
  readonly #origin: string;
  readonly #oneAtATime = new Semaphore(1);
  #latest: OpenedLog | undefined;
  #refused: string | undefined;
  #trouble: string | undefined;

  constructor(parts: BucketLogParts) {
    const { mode, origin, readers, hasPublicTiles } = parts.configuration;
    this.#parts = parts;
    this.#origin = `${origin}/${shard}`;
    this.issuanceLog = recordingIn({
      mode,
      append: (entry, _signal, authorities) =>
        this.#oneAtATime.run(() => this.#append(entry, authorities)),
      refusal: () => this.#refusal,
      troubles: () => [this.#trouble, this.#refusal].filter((each) => each !== undefined),
    });
    this.publishedLog = publishLog({
      shards: async () => {
        const verifierKey = await readVerifierKey((path) => this.#read(path));
        return verifierKey === undefined ? [] : [{ shard, origin: this.#origin, verifierKey }];
      },
      read: async (name, path) => (name === shard ? this.#read(path) : undefined),
      readers,
      hasPublicTiles,
    });
  }

  /** Publishes the staged entries. An instance is frozen between two requests, so nothing is published then. */
  readonly publish = (): Promise<void> => this.#oneAtATime.run(() => this.#publish());

  get #refusal(): string | undefined {
    return this.#refused && `the issuance log takes no entry: ${this.#refused}`;
  }

  async #read(path: string): Promise<Uint8Array<ArrayBuffer> | undefined> {
    return (await this.#parts.objects.read(path))?.octets;
  }

  /** Repeats work while other instances write first. After any other failure the log is read again as well. */
  async #withLog<T>(work: (opened: OpenedLog) => Promise<T>): Promise<T> {
    const attempt = async (): Promise<T> => {
      try {
        this.#latest ??= await open(this.#parts, this.#origin);
        this.#refused = undefined;
        return await work(this.#latest);
      } catch (error) {
        this.#latest = undefined;
        if (error instanceof LogRefusal) this.#refused = error.message;
        throw error;
      }
    };
    return retry(attempt, {
      backoff: backoffs.contention,
      attempts: maximumAttempts,
      retryAfter: (error) => (error instanceof Overtaken ? 0 : undefined),
      random: Math.random,
      pause: this.#parts.pause,
    });
  }

  async #append(...[entry, authorities]: Parameters<Sequencer["append"]>): Promise<LogPosition> {
    try {
      const index = await this.#withLog(async ({ sequencer, stage }) => {
        const result = await sequencer.append(entry, authorities);
        if (!("index" in result)) throw logUnavailable(result.detail);
        await stage.commit();
        return result.index;
      });
      if (isLong(this.#latest)) await this.#publish().catch(() => {});
      return { origin: this.#origin, index };
    } catch (error) {
      // `/readyz` answers anybody, so it does not have the address of the bucket, which the audit event has.
      this.#refused ??= causeOf(error);
      throw toLogUnavailable(error);
    }
  }

  /**
   * Reads the log again, before and after, because the sequencer does not know what other instances append meanwhile.
   */
  async #publish(): Promise<void> {
    this.#latest = undefined;
    try {
      await this.#withLog(async ({ sequencer, stage, objects }) => {
        if (sequencer.isBehind) await sequencer.publish();
        await stage.commit();
        // At each time: the instance that has begun the log may have ended before.
        await publishVerifierKey(objects, sequencer);
      });
      this.#trouble = undefined;
    } catch (error) {
      this.#trouble = `the issuance log is not published (${causeOf(error)})`;
      OperationLog.logFault(this.#parts.log, "log-not-published", error, { level: "error" });
      throw error;
    } finally {
      this.#latest = undefined;
    }
  }
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
  const { objects, keks, clock } = parts;
  await keks.hold(clock());
  const stage = await ObjectStage.read(objects);
  const published = publishedObjects(objects, stage);
  try {
    const sequencer = await openSequencer(parts, { origin, stage, objects: published });
    return { stage, objects: published, sequencer };
  } catch (error) {
    const isOld = error instanceof LogRefusal && !(await stage.isCurrent());
    throw isOld ? new Overtaken("another instance publishes the log", { cause: error }) : error;
  }
}

/** A stage is shorter, because its entries are published in time. */
const maximumOctets = 32 * 1024 * 1024;

/**
 * The place of a log in the bucket of a store: beside the records, whose list has to stay short.
 *
 * @throws ConfigurationError for a store without a prefix, below which everything in the bucket is.
 */
export function logPlace(place: BucketPlace, origin: string): BucketPlace {
  if (place.prefix === "") {
    throw new ConfigurationError(["STORE_PREFIX: is required beside LOG_ORIGIN, such as mesh-1/"]);
  }
  const name = Buffer.from(origin).toString("hex");
  return { ...place, prefix: `${place.prefix.slice(0, -1)}-log/${name}/` };
}

/** The objects of a log in a bucket, by their paths in it. A write is a PUT with a condition on the entity tag. */
export function bucketObjects(
  place: BucketPlace,
  fetch: Fetch,
  clock: () => Date,
): ConditionalObjects {
  const send = createSteadyClient(place, fetch, clock);
  const nameOf = (path: string): string => `${place.prefix}${path}`;

  return {
    read: async (path) => {
      const request = { method: "GET", name: nameOf(path) } as const;
      const answer = await send(request, maximumOctets);
      if (answer.outcome !== "done") return undefined;
      if (!answer.octets) throw new FetchError(`has an object ${path} that is too long`);
      return { octets: new Uint8Array(answer.octets), version: taggedVersion(answer) };
    },
    write: async (path, body, version) => {
      const request = { method: "PUT", name: nameOf(path), body, replaces: { version } } as const;
      const answer = await send(request);
      return answer.outcome === "done" ? taggedVersion(answer) : undefined;
    },
  };
}

function taggedVersion({ version }: Extract<BucketAnswer, { outcome: "done" }>): string {
  if (version === "") throw new FetchError("answered without an entity tag");
  return version;
}
