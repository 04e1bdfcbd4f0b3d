import { isRecent, isSetBack } from "../../foundation/caches.ts";
import { CaError, messageOf } from "../../foundation/errors.ts";
import type { OperationLog } from "../../foundation/events.ts";
import { Semaphore, type WorkSharing } from "../../foundation/shared-work.ts";
import { Bytes } from "../../pki/encoding/bytes.ts";
import type { TrustDomain } from "../../pki/spiffe-id.ts";
import { addSeconds } from "../../pki/x509/validity.ts";
import { deriveOctets, type HeldKeks, Kek, type KekRing } from "../kek.ts";
import { firstOf, KeyServiceError, type KeyServices } from "./key-service.ts";

/** A KEK that is wrapped by each of several keys of key services. The first that answers opens it. */
export interface WrappedKek {
  readonly id: string;
  readonly wrappings: readonly { readonly uri: string; readonly ciphertext: Bytes }[];
  readonly mark: Bytes;
}

/**
 * A mark that is derived from a KEK's octets, the trust domain and the id, and that reveals nothing of the octets. A
 * key service, and anybody who has its public key, could wrap other octets for this id: their mark would differ.
 */
export const markOf = (octets: Bytes, trustDomain: string, id: string): Promise<Bytes> =>
  deriveOctets(octets, `rampart kek ${JSON.stringify([trustDomain, id])}`);

/** A KEK of a configuration: its octets, or what key services can open. */
export type ConfiguredKek = { readonly id: string; readonly octets: Bytes } | WrappedKek;

/** The KEKs to hold, and what a lease needs of its platform. */
export interface LeaseParts {
  readonly keks: readonly ConfiguredKek[];
  /** The named signers, whose KEKs are derived at the same time. */
  readonly signers: readonly string[];
  readonly trustDomain: TrustDomain;
  readonly leaseSeconds: number;
  readonly keyServices: KeyServices;
  readonly clock: () => Date;
  /**
   * Milliseconds of a clock that is never set back. It may stop while the machine sleeps, whereas the wall clock goes
   * on.
   */
  readonly monotonic: () => number;
  /** At least 0 and less than 1. */
  readonly random: () => number;
  readonly log: OperationLog;
  readonly shareWork: WorkSharing;
  /** Goes on with work that no call waits for. Absent where work ends with its call. */
  readonly inBackground?: ((work: Promise<void>) => void) | undefined;
}

/** The KEKs of one opening, by the names of the signers; those of the unnamed authorities have the name "". */
interface Opening {
  readonly at: Date;
  readonly atMonotonic: number;
  readonly rings: ReadonlyMap<string, readonly Kek[]>;
}

/** A lease is renewed at least this often in its time, so that it outlasts an outage of nearly that time. */
const renewalsInLease = 10;
/** The largest random part of each pause, so that processes that started together do not call the service together. */
const jitter = 1 / 4;
const longestRetrySeconds = 30;
const shortestRetrySeconds = 2;

/** Enough for two KEKs in three regions each, of which only the last one answers. */
const longestOpeningMilliseconds = 30_000;
const maximumWaiting = 5000;

/**
 * KEKs that key services opened, held for the time of a lease. Until the lease ends, no call waits for a service; but where
 * no work goes on after its call, the call that renews the lease does. After the end, nothing that a KEK has opened or
 * derived can be used any more.
 */
export class KekLease implements HeldKeks {
  readonly #parts: LeaseParts;
  readonly #opening: ReturnType<WorkSharing>;
  #opened: Opening | undefined;
  /** When the services were asked last, and how long after it they are not asked again. */
  #askedAt: Date | undefined;
  #pauseSeconds = 0;
  #fault: string | undefined;

  constructor(parts: LeaseParts) {
    this.#parts = parts;
    this.#opening = parts.shareWork(new Semaphore(maximumWaiting), longestOpeningMilliseconds);
  }

  readonly fault = (): string | undefined => this.#fault && withoutUris(this.#fault);

  readonly until = (): Date | undefined =>
    this.#opened && addSeconds(this.#opened.at, this.#parts.leaseSeconds);

  readonly ring = (signer = ""): KekRing => {
    const held = (index: number): Kek => {
      const kek = this.#holds(this.#parts.clock())
        ? this.#opened?.rings.get(signer)?.[index]
        : undefined;
      if (!kek) throw this.#refusal();
      return kek;
    };
    const [first, ...others] = this.#parts.keks.map(({ id }, i) => ({
      id,
      get key() {
        return held(i).key;
      },
      get statementKey() {
        return held(i).statementKey;
      },
    }));
    if (!first) throw new Error("a configuration without a KEK");
    return [first, ...others];
  };

  readonly hold = (now: Date): Promise<void> | undefined => {
    if (!this.#holds(now)) return this.#require(now);
    if (this.#isPaused(now)) return undefined;
    // One call starts to renew the lease, and no other waits for that.
    this.#retryAfter(now);
    const renewal = this.#opening.join(() => this.#open());
    const { inBackground } = this.#parts;
    if (!inBackground) return renewal;
    inBackground(renewal.catch(() => {}));
    return undefined;
  };

  #holds(now: Date): boolean {
    const until = this.until();
    if (!(this.#opened && until)) return false;
    const { at, atMonotonic } = this.#opened;
    const heldSeconds = (this.#parts.monotonic() - atMonotonic) / 1000;
    return !isSetBack(at, now) && now < until && heldSeconds < this.#parts.leaseSeconds;
  }

  #isPaused(now: Date): boolean {
    return isRecent(this.#askedAt, this.#pauseSeconds, now);
  }

  #pause(now: Date, seconds: number): void {
    this.#askedAt = now;
    this.#pauseSeconds = seconds * (1 - jitter * this.#parts.random());
  }

  /** Opens the KEKs, or waits until they are. After a failure it refuses at once until it is time to ask again. */
  async #require(now: Date): Promise<void> {
    if (!this.#isPaused(now) || this.#fault === undefined)
      await this.#opening.join(() => this.#open());
    if (this.#holds(now)) return;
    this.#opened = undefined;
    throw this.#refusal();
  }

  #refusal(): CaError {
    const why = `the KEK is not open: ${this.#fault ?? "no key service has opened it yet"}`;
    return new CaError({ reason: "kek-unavailable" }, withoutUris(why), new Error(why));
  }

  #retryAfter(now: Date): void {
    const { leaseSeconds } = this.#parts;
    const seconds = this.#holds(now)
      ? Math.min(longestRetrySeconds, leaseSeconds / renewalsInLease)
      : shortestRetrySeconds;
    this.#pause(now, seconds);
  }

  async #open(): Promise<void> {
    const { keks, clock, monotonic, leaseSeconds, log } = this.#parts;
    const at = clock();
    const atMonotonic = monotonic();
    try {
      const opened = await Promise.all(keks.map((kek) => this.#import(kek)));
      const names = ["", ...this.#parts.signers];
      const rings = names.map((name, i): [string, Kek[]] => [
        name,
        opened.flatMap((each) => each[i] ?? []),
      ]);
      this.#opened = { at, atMonotonic, rings: new Map(rings) };
      this.#pause(at, leaseSeconds / renewalsInLease);
      this.#fault = undefined;
    } catch (error) {
      this.#fault = messageOf(error);
      this.#retryAfter(at);
      const isHeld = this.#holds(at);
      log.operation({
        event: "kek-unavailable",
        level: isHeld ? "warning" : "error",
        detail: this.#fault,
        ...(isHeld && { heldUntil: this.until()?.toISOString() }),
      });
    }
  }

  /**
   * Imports the unwrapped KEK and derives those of the named signers. Its octets are overwritten afterwards, and no
   * code can export the keys.
   */
  async #import(kek: ConfiguredKek): Promise<readonly Kek[]> {
    const { signers, trustDomain, keyServices } = this.#parts;
    const octets =
      "octets" in kek ? kek.octets : await WrappedKek.open(kek, trustDomain, keyServices);
    const names = [undefined, ...signers];
    const keks = await Promise.all(names.map((name) => Kek.import(kek.id, octets, name)));
    if (!("octets" in kek)) octets.fill(0);
    return keks;
  }
}

/** Anybody may ask `/readyz`, so it does not show the address of a key, which names its account. The log and the verbs show it. */
const withoutUris = (said: string): string => said.replace(/(\w+):\/\/\S+/g, "$1");

/** The context to which key services bind a wrapped KEK. Both fields appear in the services' own logs. */
export const contextOf = (trustDomain: string, id: string) => ({
  "rampart-kek": id,
  "rampart-trust-domain": trustDomain,
});

/** Opens wrapped KEKs. */
export const WrappedKek = {
  /**
   * Opens a wrapped KEK by the first of its key services that can.
   *
   * @throws Error that says for each key why it did not open, without a credential.
   */
  async open(
    { id, wrappings, mark }: WrappedKek,
    trustDomain: string,
    keyServices: KeyServices,
  ): Promise<Bytes> {
    const open = async ({ uri, ciphertext }: WrappedKek["wrappings"][number]): Promise<Bytes> => {
      const octets = await keyServices(uri).unwrap(ciphertext, contextOf(trustDomain, id));
      const isIt =
        octets.length === Kek.octets && Bytes.equal(await markOf(octets, trustDomain, id), mark);
      if (isIt) return octets;
      throw new KeyServiceError(
        `opened another KEK than the one that was wrapped for ${trustDomain}`,
      );
    };
    return firstOf(wrappings, open).catch((error: unknown) => {
      throw new Error(`KEK ${id}: ${messageOf(error)}`);
    });
  },
};
