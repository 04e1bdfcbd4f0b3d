import { hash } from "node:crypto";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { EventLog } from "../../ca/issuance/event-log.ts";
import { IssuanceLog } from "../../ca/issuance/issuance-log.ts";
import { recordingIn } from "../../ca/issuance/record-issuance.ts";
import type { LogConfiguration } from "../../config/optional-parts.ts";
import type { HeldKeks } from "../../custody/kek.ts";
import { logKeysFor } from "../../custody/log-key.ts";
import { CaError, causeOf, messageOf, OperatorError } from "../../foundation/errors.ts";
import { OperationLog } from "../../foundation/events.ts";
import type { Pause } from "../../foundation/pause.ts";
import { SingleFlight } from "../../foundation/single-flight.ts";
import type { TrustDomain } from "../../pki/spiffe-id.ts";
import { NodeFetch } from "../../program/http/http-client.ts";
import { Recurrence } from "../../program/recurrence.ts";
import { askConfigured } from "../../tlog/ask-witnesses.ts";
import { LogError } from "../../tlog/log-error.ts";
import type { Hash } from "../../tlog/merkle.ts";
import { LogRefusal } from "../../tlog/sequencer/open-log.ts";
import { Sequencer, type SequencerParts } from "../../tlog/sequencer/sequencer.ts";
import { LogObjects, type LogStage } from "../../tlog/sequencer/storage.ts";
import { maximumEntryOctets } from "../../tlog/tile.ts";
import { PublishedLog } from "../../transport/http/log-routes.ts";
import { StoreOwner } from "../files/store-owner.ts";
import { fileObjects, openSqliteStage, readObject, type SqliteStage } from "./log-storage.ts";

/** What each log of a server needs. */
export interface LogParts {
  readonly configuration: LogConfiguration;
  readonly trustDomain: TrustDomain;
  readonly keks: Pick<HeldKeks, "hold" | "ring">;
  readonly log: EventLog;
  readonly clock: () => Date;
  readonly pause?: Pause | undefined;
}

interface NodeLogParts extends LogParts {
  readonly storeDirectory: string;
  /** The number of this process's log: each serving process has its own. */
  readonly shard: number;
}

/** A reused buffer: 0x00 (RFC 6962 §2.1), then the entry. */
const leaf = new Uint8Array(1 + maximumEntryOctets);

/** The leaf hash, by OpenSSL, in a tenth of JavaScript's time. */
export function hashEntry(entry: Uint8Array): Hash {
  leaf.set(entry, 1);
  // As a string, because a buffer of its own for each hash costs as much as the hash.
  const text = hash("sha256", leaf.subarray(0, 1 + entry.length), "binary");
  return new Uint8Array(Buffer.from(text, "latin1"));
}

/**
 * The issuance log of one process of a Node program, in its folder: it appends entries, publishes them at intervals,
 * and reads what is published.
 */
export class NodeLog {
  readonly issuanceLog: IssuanceLog;
  readonly publishedLog: PublishedLog;
  readonly #parts: NodeLogParts;
  readonly #stage: SqliteStage;
  readonly #storage: OpenedStorage;
  readonly #opening = new SingleFlight<Sequencer>();
  #sequencer: Sequencer | undefined;
  #closed: string | undefined;
  #trouble: string | undefined;
  #publication: Recurrence | undefined;
  #ended: Promise<void> | undefined;

  private constructor(parts: NodeLogParts, directory: string, folder: string) {
    const { configuration, shard } = parts;
    const origin = `${configuration.origin}/${shard}`;
    this.#parts = parts;
    this.#stage = openStage(folder);
    this.#storage = { origin, stage: this.#stage, objects: fileObjects(join(folder, "public")) };
    this.issuanceLog = recordingIn({
      mode: configuration.mode,
      append: async (entry, _signal, authorities) => {
        const sequencer = this.#sequencer ?? (await this.#open());
        const result = await sequencer.append(entry, authorities);
        if ("index" in result) return { origin, index: result.index };
        throw IssuanceLog.unavailable(result.detail);
      },
      refusal: () => this.#refusal,
      troubles: () => [this.#trouble, this.#refusal].filter((each) => each !== undefined),
    });
    this.publishedLog = PublishedLog.publishStored({
      ...configuration,
      names: () => shardsIn(directory),
      read: (name, path) => readObject(join(directory, name, "public", path)),
    });
  }

  /**
   * Opens the log of this process: a SQLite stage, and files below the directory of the store. Until a key service has
   * unwrapped the KEK, the log accepts no entry.
   *
   * @throws OperatorError if the log must not continue, or another process has it open.
   */
  static async open(parts: NodeLogParts): Promise<NodeLog> {
    const directory = logDirectory(parts.storeDirectory, parts.configuration.origin);
    const folder = join(directory, String(parts.shard));
    await StoreOwner.makeFolder(join(folder, "public"), await StoreOwner.of(parts.storeDirectory));
    const log = new NodeLog(parts, directory, folder);
    await log.#open().catch((error) => {
      if (isAway(error)) return;
      log.#stage.close();
      throw error;
    });
    const { intervalSeconds } = parts.configuration;
    log.#publication = Recurrence.start(
      () => log.#publish(),
      intervalSeconds,
      () => {},
      parts.pause,
    );
    return log;
  }

  /** Publishes staged entries, and closes the storage. A second call waits for the first. */
  readonly end = (): Promise<void> => {
    this.#ended ??= this.#endOnce();
    return this.#ended;
  };

  async #endOnce(): Promise<void> {
    try {
      await this.#publication?.end();
      await this.#publish();
    } finally {
      this.#stage.close();
    }
  }

  get #refusal(): string | undefined {
    const why = this.#closed ?? this.#sequencer?.refusal ?? this.#sequencer?.failure;
    return why && `the issuance log takes no entry: ${why}`;
  }

  /** Opens the sequencer once, and again after a failure. */
  #open(): Promise<Sequencer> {
    const open = () =>
      this.#openOnce().catch((error: unknown) => {
        const fault = toOperatorError(error);
        this.#closed = messageOf(fault);
        throw fault;
      });
    return this.#opening.join(open, () => true);
  }

  async #openOnce(): Promise<Sequencer> {
    const sequencer = await openSequencer(this.#parts, this.#storage);
    await LogObjects.publishVerifierKey(this.#storage.objects, sequencer);
    this.#sequencer = sequencer;
    this.#closed = undefined;
    return sequencer;
  }

  async #publish(): Promise<void> {
    try {
      const opened = await this.#open();
      opened.probe();
      if (opened.isBehind) await opened.publish();
      this.#trouble = undefined;
    } catch (error) {
      if (isAway(error)) return;
      // Without a path, because anybody may read `/readyz`.
      this.#trouble = `the issuance log is not published (${causeOf(error)})`;
      OperationLog.logFault(this.#parts.log, "log-not-published", error, { level: "error" });
    }
  }
}

/** The folder of the logs with one origin, in which each shard has a folder. */
export function logDirectory(storeDirectory: string, origin: string): string {
  return join(storeDirectory, "log", encodeURIComponent(origin));
}

function openStage(folder: string): SqliteStage {
  try {
    return openSqliteStage(join(folder, "stage.sqlite"));
  } catch (error) {
    const why = isBusy(error) ? "another process writes it: end that process" : messageOf(error);
    throw new OperatorError(`the issuance log in ${folder} does not open: ${why}`);
  }
}

/** Whether SQLite reports a lock of another process (`SQLITE_BUSY`). */
const isBusy = (error: unknown): boolean =>
  error instanceof Error && "errcode" in error && error.errcode === 5;

/** Whether an error means that the KEK is unavailable for now. The lease has logged why. */
export const isAway = (error: unknown): boolean =>
  error instanceof CaError && error.refusal.reason === "kek-unavailable";

/** The stage and the objects of a log, and its origin. */
interface OpenedStorage {
  readonly origin: string;
  readonly stage: LogStage;
  readonly objects: LogObjects;
  readonly nextTurn?: SequencerParts["nextTurn"];
}

/**
 * Opens the sequencer of a log, after it has acquired the KEK that unseals its keys.
 *
 * @param mayBegin Whether an empty log may begin on the configuration's inception date.
 * @throws LogRefusal, LogError, and CaError while the KEK is unavailable.
 */
export async function openSequencer(
  { configuration, trustDomain, keks, clock, log }: LogParts,
  opened: OpenedStorage,
  mayBegin = true,
): Promise<Sequencer> {
  await keks.hold(clock());
  return Sequencer.open({
    nextTurn: setImmediate,
    ...opened,
    keys: logKeysFor(opened.origin, { trustDomain, keks: keks.ring() }),
    mayBegin: () => mayBegin && clock().toISOString().slice(0, 10) === configuration.inceptionDate,
    hashEntry,
    yieldTurn: () => new Promise(setImmediate),
    askWitnesses: askConfigured(configuration.witnesses, {
      fetch: NodeFetch.trusting(undefined),
      read: opened.objects.read,
      log,
    }),
  });
}

/** Converts the error of a log that must not continue to OperatorError; others stay. */
export function toOperatorError(error: unknown): unknown {
  if (error instanceof LogRefusal) return new OperatorError(error.message);
  if (error instanceof LogError) return new OperatorError(`LOG_WITNESSES: ${error.message}`);
  return error;
}

/** The shards of all processes that share the directory. */
async function shardsIn(directory: string): Promise<readonly string[]> {
  const names = (await readdir(directory)).filter((name) => /^[0-9]{1,3}$/.test(name));
  return names.toSorted((a, b) => Number(a) - Number(b));
}
