import { DurableObject } from "cloudflare:workers";
import { Configuration } from "../../config/configuration.ts";
import { ConfiguredKeks } from "../../config/keks.ts";
import type { OpenPlatformKeys } from "../../config/platform-keys.ts";
import type { HeldKeks } from "../../custody/kek.ts";
import { logKeysFor } from "../../custody/log-key.ts";
import { messageOf } from "../../foundation/errors.ts";
import { OperationLog, WriteLine } from "../../foundation/events.ts";
import { WorkSharing } from "../../foundation/shared-work.ts";
import { askConfigured } from "../../tlog/ask-witnesses.ts";
import { Hash } from "../../tlog/merkle.ts";
import { LogRefusal } from "../../tlog/sequencer/open-log.ts";
import { type AppendResult, type NamedEntry, Sequencer } from "../../tlog/sequencer/sequencer.ts";
import { LogObjects } from "../../tlog/sequencer/storage.ts";
import { variablesOf, withStoredSecrets } from "../variables.ts";
import { bucketBinding, bucketObjects, isBucket, sqlStage } from "./log-storage.ts";

const originKey = "origin";

/** The state of a shard, one sentence each. */
export interface ShardState {
  /** Why it accepts no entry. */
  readonly refusal?: string | undefined;
  /** Why accepted entries are not published. */
  readonly trouble?: string | undefined;
}

/**
 * One shard of an issuance log: the only writer of its tree. Its name is its origin.
 *
 * A method returns a refusal and does not throw, because an error loses its class between isolates.
 */
export class IssuanceLogShard extends DurableObject<Readonly<Record<string, unknown>>> {
  readonly #log = OperationLog.create(() => new Date(), WriteLine.toConsole);
  /** @internal Absent from a main module without key services. Users of the package need none of its types. */
  protected readonly openKeyCustody: OpenPlatformKeys | undefined;
  #keks: HeldKeks | undefined;
  #sequencer: Promise<Sequencer> | undefined;
  #isArmed = false;
  #trouble: string | undefined;
  #flushed: Promise<void> = Promise.resolve();
  #intervalSeconds = 0;

  /** Appends an entry. @param origin The name of this object, which is stored for alarms. */
  async append(
    origin: string,
    entry: Uint8Array<ArrayBuffer>,
    before: readonly NamedEntry[] = [],
  ): Promise<AppendResult> {
    try {
      const sequencer = await this.#openHeld(origin);
      const result = await sequencer.append(entry, before);
      if (!this.#isArmed) await this.#arm();
      return result;
    } catch (error) {
      const refused = error instanceof LogRefusal ? "closed" : "failed";
      return { refused, detail: messageOf(error) };
    }
  }

  /** The state now. After a failed commit it tries to write. */
  async look(origin: string): Promise<ShardState> {
    try {
      const sequencer = await this.#open(origin);
      sequencer.probe();
      return { refusal: sequencer.refusal ?? sequencer.failure, trouble: this.#trouble };
    } catch (error) {
      return { refusal: messageOf(error) };
    }
  }

  /** Publishes appended entries. It sets the next alarm first, because the platform gives up after six failures. */
  override async alarm(): Promise<void> {
    this.#isArmed = false;
    const origin = await this.ctx.storage.get<string>(originKey);
    if (origin === undefined) return;
    try {
      const sequencer = await this.#openHeld(origin);
      if (!sequencer.isBehind) return;
      await this.#arm();
      await sequencer.publish();
      this.#trouble = undefined;
    } catch (error) {
      this.#trouble = `entries wait to be published: ${messageOf(error)}`;
      OperationLog.logFault(this.#log, "log-not-published", error, { level: "error", log: origin });
      if (!(error instanceof LogRefusal) && !this.#isArmed) await this.#arm();
    }
  }

  async #arm(): Promise<void> {
    this.#isArmed = true;
    await this.ctx.storage.setAlarm(Date.now() + 1000 * Math.max(1, this.#intervalSeconds));
  }

  /** Opens the log, which signs only while its KEK is held. */
  async #openHeld(origin: string): Promise<Sequencer> {
    const sequencer = await this.#open(origin);
    await this.#keks?.hold(new Date());
    return sequencer;
  }

  /**
   * Opens the log once. A log that must not continue stays closed until the Durable Object restarts; after any other
   * failure the next call tries again.
   */
  #open(origin: string): Promise<Sequencer> {
    this.#sequencer ??= this.#openOnce(origin).catch((error: unknown) => {
      if (!(error instanceof LogRefusal)) this.#sequencer = undefined;
      throw error;
    });
    return this.#sequencer;
  }

  async #openOnce(origin: string): Promise<Sequencer> {
    const configuration = Configuration.parse(variablesOf(await withStoredSecrets(this.env)));
    const keks = await this.#holdKeks(configuration);
    const { log, trustDomain } = configuration;
    const bucket = this.env[bucketBinding];
    if (!log || !isBucket(bucket))
      throw new LogRefusal(origin, "LOG_ORIGIN or LOG_BUCKET is missing");
    this.#intervalSeconds = log.intervalSeconds;
    const objects = bucketObjects(bucket, origin);
    const today = new Date().toISOString().slice(0, 10);
    const sequencer = await Sequencer.open({
      origin,
      stage: sqlStage(this.ctx.storage),
      objects,
      keys: logKeysFor(origin, { trustDomain, keks: keks.ring() }),
      mayBegin: () => today === log.inceptionDate,
      hashEntry: Hash.ofLeaf,
      yieldTurn: async () => {},
      nextTurn: (commit) => void this.#flushed.then(() => this.#commitSoon(commit)),
      askWitnesses: askConfigured(log.witnesses, { fetch, read: objects.read, log: this.#log }),
    });
    await this.ctx.storage.put(originKey, origin);
    await LogObjects.publishVerifierKey(objects, sequencer);
    return sequencer;
  }

  async #holdKeks(configuration: Configuration): Promise<HeldKeks> {
    const clock = (): Date => new Date();
    const keyCustody = this.openKeyCustody?.(configuration, {
      fetch: (url, init) => fetch(url, init),
      clock,
      monotonic: () => performance.now(),
      random: Math.random,
    });
    // Kept over all attempts to open the log, because the lease knows when to ask the service again.
    this.#keks ??= await ConfiguredKeks.hold(configuration, {
      keyCustody,
      clock,
      log: this.#log,
      shareWork: WorkSharing.polling(clock),
      inBackground: (work) => this.ctx.waitUntil(work),
    });
    await this.#keks.hold(clock());
    return this.#keks;
  }

  /** Commits soon. Entries that come during the flush share the next commit, because each commit is a row that is billed. */
  #commitSoon(commit: () => void): void {
    setTimeout(() => {
      commit();
      this.#flushed = this.ctx.storage.sync().catch(() => {});
    }, 0);
  }
}
