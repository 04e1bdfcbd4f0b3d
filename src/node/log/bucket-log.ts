import { IssuanceLog, type LogPosition } from "../../ca/issuance/issuance-log.ts";
import { recordingIn } from "../../ca/issuance/record-issuance.ts";
import { Backoff, retry } from "../../foundation/backoff.ts";
import { CaError } from "../../foundation/errors.ts";
import { OperationLog } from "../../foundation/events.ts";
import { type Fetch, FetchError } from "../../foundation/fetch.ts";
import { Semaphore } from "../../foundation/shared-work.ts";
import { SingleFlight } from "../../foundation/single-flight.ts";
import { Bytes } from "../../pki/encoding/bytes.ts";
import { NodeFetch } from "../../program/http/http-client.ts";
import { Recurrence } from "../../program/recurrence.ts";
import type { Frontier } from "../../tlog/frontier.ts";
import { LogError } from "../../tlog/log-error.ts";
import type { Hash } from "../../tlog/merkle.ts";
import { LogProof } from "../../tlog/proof.ts";
import { LogRefusal, stagedTree } from "../../tlog/sequencer/open-log.ts";
import type { Sequencer } from "../../tlog/sequencer/sequencer.ts";
import { LogObjects, StagedBatch } from "../../tlog/sequencer/storage.ts";
import { Tile } from "../../tlog/tile.ts";
import { PublishedLog } from "../../transport/http/log-routes.ts";
import { Turn } from "../limits/turn.ts";
import type { BucketAnswer } from "../stores/bucket-client.ts";
import { createSteadyClient } from "../stores/bucket-promises.ts";
import { BucketSpace } from "../stores/bucket-space.ts";
import type { BucketPlace } from "../stores/store-place.ts";
import { hashEntry, isAway, type LogParts, openSequencer, toOperatorError } from "./node-log.ts";
import {
  type ConditionalObjects,
  ObjectStage,
  Overtaken,
  publishedObjects,
  stagePath,
} from "./object-stage.ts";

interface BucketLogParts extends LogParts {
  readonly objects: ConditionalObjects;
  /** Rejects unless the bucket lets only one of two concurrent writers replace an object. */
  readonly prove?: () => Promise<void>;
  /** The shard that this process appends to first; by default any. */
  readonly firstShard?: number | undefined;
}

/** How often a write is attempted: with many processes, others may come first repeatedly. */
const maximumAttempts = 30;

/**
 * How many callers wait without their turns. Further ones keep theirs, so that callers who hang up and retry while a
 * bucket is slow do not fill memory, or the batch that the others wait for.
 */
const waitingAside = 256;

/** How many entries may be staged before no more are accepted, because they are in memory. */
const maximumStaged = 32_768;

/**
 * A process leaves its shard once others have overtaken it in more than a quarter of its writes. The longer it was
 * alone there, the later it leaves, so that a new process leaves the shard to the old one.
 */
const longestPatience = 16;
const overtakingCosts = 3;

/** The shortest time between two examinations of other processes' shards. Two publications may take longer. */
const shortestLookSeconds = 15;

/**
 * The log in a bucket, with any number of shards, to which any number of processes append. A process keeps to one shard
 * until other processes write there, and then moves to the next. Of two concurrent writers, the bucket refuses one,
 * which reads the shard again. An entry is durable, and its certificate may be issued, once its write is confirmed.
 */
export class BucketLog {
  readonly issuanceLog: IssuanceLog;
  readonly publishedLog: PublishedLog;
  readonly #parts: BucketLogParts;
  readonly #shards: readonly Shard[];
  readonly #aside = new Semaphore(waitingAside);
  #own: number;
  #patience = 1;
  #overtakings = 0;

  constructor(parts: BucketLogParts) {
    const { mode, shards: count } = parts.configuration;
    this.#parts = parts;
    this.#shards = Array.from(
      { length: count },
      (_, number) => new Shard(parts, number, (shard) => this.#overtaken(shard)),
    );
    this.#own = (parts.firstShard ?? Math.floor(Math.random() * count)) % count;
    this.issuanceLog = recordingIn({
      mode,
      append: (entry, _signal, authorities) => {
        const append = (): Promise<LogPosition> => this.#append(entry, authorities);
        return this.#aside.tryRun(() => Turn.aside(append)) ?? append();
      },
      refusal: () => this.#ownShard.refusal,
      troubles: () => [...new Set(this.#shards.flatMap((each) => each.troubles))],
    });
    this.publishedLog = PublishedLog.publishStored({
      ...parts.configuration,
      names: () => this.#shards.map((_, number) => String(number)),
      read: async (name, path) => this.#shards[Number(name)]?.read(path),
    });
  }

  /** @throws OperatorError for a bucket that does not decide between two writers, FetchError. */
  readonly prove = async (): Promise<void> => this.#parts.prove?.();

  /** Publishes the staged entries of all shards. For processes without timers, which do not call {@link begin}. */
  readonly publish = async (): Promise<void> => {
    const results = await Promise.allSettled(this.#shards.map((each) => each.publish()));
    for (const each of results) if (each.status === "rejected") throw each.reason;
  };

  /**
   * Opens the log. At intervals it publishes its own shard, and the shards of other processes that do not publish them.
   *
   * @returns A function that ends this.
   * @throws OperatorError if the log must not continue. An unreachable bucket or key service is no error.
   */
  async begin(): Promise<() => Promise<void>> {
    const { configuration, pause } = this.#parts;
    await this.#ownShard.open().catch((error: unknown) => {
      const isAwaited = error instanceof FetchError || isAway(error);
      if (!isAwaited) throw toOperatorError(error);
    });
    const ignore = (): void => {};
    const { intervalSeconds } = configuration;
    const publishOwn = (): Promise<void> => this.#ownShard.publish();
    const publication = Recurrence.start(publishOwn, intervalSeconds, ignore, pause);
    const lookSeconds = Math.max(shortestLookSeconds, 2 * intervalSeconds);
    const looks = Recurrence.start(() => this.finishOthers(), lookSeconds, ignore, pause);
    return async () => {
      await Promise.all([publication.end(), looks.end()]);
      await publishOwn().catch(ignore);
    };
  }

  get #ownShard(): Shard {
    const own = this.#shards[this.#own];
    if (!own) throw new Error("a log without shards");
    return own;
  }

  async #append(...logged: Parameters<Sequencer["append"]>): Promise<LogPosition> {
    const overtakings = this.#overtakings;
    const position = await this.#ownShard.append(...logged);
    if (this.#overtakings === overtakings)
      this.#patience = Math.min(this.#patience + 1, longestPatience);
    return position;
  }

  #overtaken(shard: Shard): void {
    if (shard !== this.#ownShard) return;
    this.#overtakings++;
    this.#patience -= overtakingCosts;
    if (this.#patience > 0) return;
    this.#patience = 1;
    const others = this.#shards.length - 1;
    this.#own = (this.#own + Math.ceil(Math.random() * others)) % this.#shards.length;
  }

  /** Publishes the shards whose processes have left entries unpublished since the last look. Never rejects. */
  async finishOthers(): Promise<void> {
    const others = this.#shards.filter((each) => each !== this.#ownShard);
    await Promise.allSettled(others.map((each) => each.finish()));
  }
}

/** A log as read from the bucket, and the sequencer that continues it. */
interface OpenedLog {
  readonly stage: ObjectStage;
  readonly objects: LogObjects;
  readonly sequencer: Sequencer;
}

/** One shard of a log in a bucket, as seen by this process. */
class Shard {
  readonly #parts: BucketLogParts;
  readonly #origin: string;
  readonly #objects: ConditionalObjects;
  readonly #overtaken: () => void;
  readonly #attempts: Parameters<typeof retry>[1];
  readonly #opening = new SingleFlight<OpenedLog>();
  readonly #publishing = new SingleFlight<void>();
  /** The last stage that this process has seen. Later ones must extend it. */
  #seen: ObjectStage | undefined;
  #hasKey = false;
  /** The version of the stage at the last look, and the version that was last published. */
  #looked: string | undefined;
  #finished: string | undefined;
  /** Why it accepts no entry, as the end of a sentence. */
  #refused: string | undefined;
  #trouble: string | undefined;

  /** @param overtaken Called when another process has written first. */
  constructor(parts: BucketLogParts, number: number, overtaken: (shard: Shard) => void) {
    const { objects } = parts;
    // The first shard has no folder of its own, because it once was the only one.
    const prefix = number === 0 ? "" : `${number}/`;
    this.#parts = parts;
    this.#origin = `${parts.configuration.origin}/${number}`;
    this.#overtaken = () => overtaken(this);
    this.#attempts = {
      backoff: Backoff.usual.contention,
      attempts: maximumAttempts,
      retryAfter: (error) => (error instanceof Overtaken ? 0 : undefined),
      random: Math.random,
      pause: parts.pause,
    };
    this.#objects = {
      read: (path) => objects.read(prefix + path),
      write: (path, ...object) => objects.write(prefix + path, ...object),
    };
  }

  get refusal(): string | undefined {
    return this.#refused && `the issuance log takes no entry${this.#refused}`;
  }

  get troubles(): readonly string[] {
    return [this.#trouble, this.refusal].filter((each) => each !== undefined);
  }

  readonly read = async (path: string): Promise<Uint8Array<ArrayBuffer> | undefined> =>
    (await this.#objects.read(path))?.octets;

  /** Appends an entry exactly once, even if answers to its writes are lost. @throws CaError `log-unavailable` */
  async append(...[entry, authorities]: Parameters<Sequencer["append"]>): Promise<LogPosition> {
    const attempted: number[] = [];
    try {
      const index = await this.#withLog(async (opened) => {
        for (const each of attempted) if (await hasEntry(opened, each, entry)) return each;
        const { sequencer, stage } = opened;
        if (stage.size >= maximumStaged) throw IssuanceLog.unavailable("it is not published");
        const appending = sequencer.append(entry, authorities);
        stage.expectEntry();
        const result = await appending;
        if ("index" in result) {
          attempted.push(result.index);
          await stage.commit();
          return result.index;
        }
        throw stage.isOutdated
          ? new Overtaken(result.detail)
          : IssuanceLog.unavailable(result.detail);
      });
      this.#refused = undefined;
      return { origin: this.#origin, index };
    } catch (error) {
      if (!(error instanceof CaError)) this.#refused ??= FetchError.whyOf(error);
      throw IssuanceLog.toUnavailable(error);
    }
  }

  /** Reads the log, or begins it. @throws LogRefusal, FetchError, CaError */
  readonly open = (): Promise<void> => this.#withLog(async () => {});

  /** Publishes the staged entries. After a failure, it also finds out whether the bucket accepts writes again. */
  readonly publish = (): Promise<void> => this.#publishing.join(() => this.#publishOnce());

  /** Begins the log, or publishes what another process has left: since the last look its stage has not changed. */
  async finish(): Promise<void> {
    const stored = await this.#objects.read(stagePath);
    const isLeft = stored !== undefined && stored.version === this.#looked;
    this.#looked = stored?.version;
    if (!stored) await this.open();
    const isUnfinished = isLeft && this.#finished !== stored.version;
    // It also publishes while there are troubles, so that they end once the bucket works.
    if (stored && !isUnfinished && this.troubles.length === 0) return;
    await this.publish();
  }

  async #publishOnce(): Promise<void> {
    const looked = this.#looked;
    try {
      await this.#withLog(async ({ sequencer, stage, objects }) => {
        // The sequencer does not see what other processes append.
        if (!(await stage.isCurrent())) throw new Overtaken("another process writes the log");
        if (this.#refused !== undefined) stage.save({});
        if (sequencer.isBehind) await sequencer.publish();
        await stage.commit();
        this.#refused = undefined;
        // Every process publishes the key, because the one that began the log may have ended before it did.
        if (!this.#hasKey) await LogObjects.publishVerifierKey(objects, sequencer);
        this.#hasKey = true;
      });
      this.#finished = looked;
      this.#trouble = undefined;
    } catch (error) {
      if (isAway(error)) return;
      this.#trouble = `the issuance log is not published${FetchError.whyOf(error)}`;
      OperationLog.logFault(this.#parts.log, "log-not-published", error, { level: "error" });
      throw error;
    }
  }

  /** Repeats work while other processes write first. After any failure, the log is read again. */
  #withLog<T>(work: (opened: OpenedLog) => Promise<T>): Promise<T> {
    return retry(() => this.#attempt(work), this.#attempts);
  }

  async #attempt<T>(work: (opened: OpenedLog) => Promise<T>): Promise<T> {
    let opened: OpenedLog | undefined;
    try {
      opened = await this.#opening.join(this.#open, ({ stage }) => !stage.isOutdated);
      return await work(opened);
    } catch (error) {
      if (!(error instanceof CaError)) opened?.stage.abandon();
      if (error instanceof LogRefusal) this.#refused = `: ${error.message}`;
      throw error;
    }
  }

  /** @throws Overtaken if another process has published between two reads, LogRefusal. */
  readonly #open = async (): Promise<OpenedLog> => {
    const { prove, keks, clock, pause } = this.#parts;
    await prove?.();
    await keks.hold(clock());
    const reading = ObjectStage.read(this.#objects, { hashEntry, pause });
    const stage = await this.#orRefusal(reading);
    const objects = publishedObjects(this.#objects, stage);
    try {
      if (this.#seen) {
        if (this.#seen.isOvertaken) this.#overtaken();
        await this.#orRefusal(this.#requireExtended(this.#seen, stage));
      }
      const storage = { origin: this.#origin, stage, objects, nextTurn: stage.nextTurn };
      const sequencer = await openSequencer(this.#parts, storage, this.#seen === undefined);
      this.#seen = stage;
      return { stage, objects, sequencer };
    } catch (error) {
      const isOld = error instanceof LogRefusal && !(await stage.isCurrent());
      throw isOld ? new Overtaken("another process publishes the log", { cause: error }) : error;
    }
  };

  /** Waits for a read of the log. @throws LogRefusal instead of a LogError, by which the log has failed a check. */
  async #orRefusal<T>(reading: Promise<T>): Promise<T> {
    try {
      return await reading;
    } catch (error) {
      if (!(error instanceof LogError)) throw error;
      throw new LogRefusal(this.#origin, error.message, error);
    }
  }

  /**
   * Refuses a bucket that was rolled back: it is consistent in itself, but continuing from there would fork the log.
   *
   * @throws LogError if the log lacks entries that were in it.
   */
  async #requireExtended({ confirmed: seen }: ObjectStage, stage: ObjectStage): Promise<void> {
    if (!seen.texts) return;
    const { texts, batches } = stage.confirmed;
    const before = stagedTree(seen.texts.head, seen.batches);
    const now = texts && stagedTree(texts.head, batches, before.size);
    const isExtended =
      now &&
      now.size >= before.size &&
      Bytes.equal(await rootOf(now, before.size, this.read), before.root());
    const why = "it lacks entries that it had: it was rolled back";
    if (!isExtended) throw new LogError("consistency", why);
  }
}

/** The root of the first `size` entries of a larger, published tree. @throws LogError */
async function rootOf(tree: Frontier, size: number, read: LogObjects["read"]): Promise<Hash> {
  if (tree.size === size) return tree.root();
  return LogProof.rootAt(
    size,
    tree.size,
    async (tile) => (await read(Tile.path(tile))) ?? new Uint8Array(),
  );
}

/** Whether a log has this entry at an index, in its stage or in a full bundle. */
async function hasEntry(
  { stage, objects }: OpenedLog,
  index: number,
  entry: Bytes,
): Promise<boolean> {
  const staged = stage.confirmed.batches.find(
    ({ first, count }) => first <= index && index < first + count,
  );
  const tile = { level: 0, index: Math.floor(index / Tile.fullWidth), width: Tile.fullWidth };
  const octets = staged ? undefined : await objects.read(Tile.path(tile));
  const hashes = staged ? StagedBatch.hashes(staged) : octets && Tile.parse(octets, Tile.fullWidth);
  const found = hashes?.[index - (staged?.first ?? tile.index * Tile.fullWidth)];
  return found !== undefined && Bytes.equal(found, hashEntry(entry));
}

/** Longer than a stage, whose entries move to bundles once these are full. */
const maximumOctets = 32 * 1024 * 1024;

/** Opens the log in a bucket. @throws OperatorError when the roots of its service cannot be read. */
export async function openBucketLog(
  place: BucketPlace,
  parts: Omit<BucketLogParts, "objects" | "prove">,
): Promise<BucketLog> {
  const fetch = await NodeFetch.trustingFile(place.rootsFile);
  // A prefix of its own, because a log has more objects than a list may have.
  const probes = { ...place, prefix: `${place.prefix}probes/` };
  const space = new BucketSpace(probes, fetch, parts.clock);
  const objects = bucketObjects(place, fetch, parts.clock);
  return new BucketLog({ ...parts, objects, prove: () => space.prove() });
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
    write: async (path, body, version, digest) => {
      const replaces = { version };
      const answer = await send({ method: "PUT", name: nameOf(path), body, digest, replaces });
      return answer.outcome === "done" ? taggedVersion(answer) : undefined;
    },
  };
}

function taggedVersion({ version }: Extract<BucketAnswer, { outcome: "done" }>): string {
  if (version === "") throw new FetchError("answered without an entity tag");
  return version;
}
