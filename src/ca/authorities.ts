import { type AuthorityStore, RecordName, type StoredRecord } from "../custody/authority-store.ts";
import { CaError } from "../foundation/errors.ts";
import { OperationLog } from "../foundation/events.ts";
import { FetchError } from "../foundation/fetch.ts";
import { Semaphore, type SharedWork, type WorkSharing } from "../foundation/shared-work.ts";
import type { Taint } from "../pki/authority/taint.ts";
import { AuthorityView, unrecordedTaintsAt } from "./authority-view.ts";
import { LoadClock, type LoadTimes, longestLoadSeconds } from "./internal/load-clock.ts";
import { Mint } from "./mint.ts";
import {
  assemble,
  type OpenedRecord,
  type OpenedStore,
  openRecord,
  type RecordOpening,
  type StorePolicy,
} from "./opened-store.ts";

/** Creates the authorities of a store. */
export const Authorities = {
  /** The longest time between two reads of a store that loads. */
  longestRefreshSeconds: 60,

  /** Creates the cached view of the stored authorities. It reads nothing before the view is first asked for. */
  create(configuration: AuthoritiesConfiguration): Authorities {
    return new LoadedAuthorities(configuration);
  },
};

/** The authorities of a store. */
export interface Authorities {
  /**
   * The view at this time: no promise while the last load serves.
   *
   * @throws CaError `store-unreachable` while the store cannot be read and the last load is too old,
   *   `too-many-waiting` for a load.
   */
  at(now: Date): AuthorityView | Promise<AuthorityView>;
  /**
   * Loads the store anew, even if the last load still serves. Every later view is at least as new.
   *
   * @throws CaError `store-unreachable`, `too-many-waiting`
   */
  renew(now: Date): Promise<void>;
}

interface CachedRecord {
  readonly value: string;
  readonly opened: OpenedRecord;
}

type CachedRecords = ReadonlyMap<string, CachedRecord>;

/** How authorities are loaded, and for how long they serve. */
export interface AuthoritiesConfiguration extends RecordOpening, StorePolicy, LoadTimes {
  readonly store: AuthorityStore;
  readonly shareWork: WorkSharing;
  /**
   * Waits for a load, but not for long: a store that hangs must not hold up a request, which then uses the last
   * load, or is refused. Absent where a load ends with its request.
   */
  readonly waitBriefly?: ((load: Promise<void>) => Promise<void>) | undefined;
  /** The store's policy in force, on a platform where it may change: another object after each change. */
  readonly currentPolicy?: (() => StorePolicy) | undefined;
  /** Whether this process publishes bundles, and so records the taints that its configuration states. */
  readonly publishes?: boolean;
}

/** A request that no load has served waits for at most so many further loads, and is then refused. */
const furtherWaits = 4;

/** The most requests that wait for one load. Each is in memory anyway, and most are authenticated. */
const maximumWaiting = 5000;

const toItsEnd = (load: Promise<void>): Promise<void> => load;

/**
 * The store's authorities with their keys open, cached as values in this isolate. In steady state no
 * request reads the store. One load at a time serves all requests that need one. A record that does not
 * open is logged, reported and left out; the others are used.
 */
class LoadedAuthorities implements Authorities {
  readonly #configuration: AuthoritiesConfiguration;
  readonly #loading: SharedWork;
  readonly #clock: LoadClock;
  #records: CachedRecords = new Map();
  #policy: StorePolicy;
  /** The taints of the configuration that this process has recorded, or tried to record. */
  readonly #triedTaints = new Set<string>();
  #view: AuthorityView | undefined;
  /** The error of the last load that failed. */
  #fault: unknown;

  constructor(configuration: AuthoritiesConfiguration) {
    this.#configuration = configuration;
    const capacity = new Semaphore(maximumWaiting);
    this.#loading = configuration.shareWork(capacity, 1000 * longestLoadSeconds);
    this.#clock = new LoadClock(configuration);
    this.#policy = this.#currentPolicy();
  }

  at(now: Date): AuthorityView | Promise<AuthorityView> {
    this.#clock.follow(now);
    const isDue = this.#clock.isDue || this.#policy !== this.#currentPolicy();
    return isDue ? this.#afterLoad(now) : this.#usableView(now);
  }

  async renew(now: Date): Promise<void> {
    this.#clock.follow(now);
    const before = this.#clock.begun;
    // A load under way began before this call, so another one follows it.
    await this.#loading.join();
    await this.#loading.join(() => this.#load());
    if (this.#clock.inUse.number <= before) throw unreachable(this.#fault);
  }

  async #afterLoad(now: Date): Promise<AuthorityView> {
    const { waitBriefly = toItsEnd } = this.#configuration;
    const join = (): Promise<void> => this.#loading.join(() => this.#load());
    // Only the first load of all is awaited to its end. During a later one, another replica may answer sooner.
    const wait = this.#clock.inUse.number === 0 ? toItsEnd : waitBriefly;
    await wait(join());
    // The load that this request joined may have begun too early, or before the policy changed. In a busy process a load may
    // also take longer than the last one serves. Then the request waits for another.
    const isTooOld = (): boolean =>
      (!this.#clock.serves(now) && this.#clock.isDue) || this.#policy !== this.#currentPolicy();
    for (let i = 0; i < furtherWaits && isTooOld(); i++) await wait(join());
    // The configured taints apply even if the store does not answer.
    this.#follow(this.#currentPolicy());
    return this.#usableView(now);
  }

  async #load(): Promise<void> {
    const { store, log } = this.#configuration;
    const begun = this.#clock.begin();
    const policy = this.#currentPolicy();
    try {
      const loaded = await openAll(await store.load(), this.#records, this.#configuration);
      await this.#recordTaints(loaded, policy, begun.at);
      if (!this.#clock.use(begun)) return;
      this.#records = loaded;
      this.#view = undefined;
      this.#follow(policy);
      if (!this.#currentView(this.#clock.inUse.at).issuer) this.#clock.refreshSoon();
    } catch (error) {
      this.#clock.retry(begun);
      this.#fault = error;
      OperationLog.logFault(log, "store-unreachable", error, { level: "error" });
    }
  }

  /**
   * Records the taints of the configuration in the store before a bundle shows them. Otherwise the bundle's sequence
   * would fall once their lines are removed from the configuration. If the store takes no record, a rotation tries
   * again.
   */
  async #recordTaints(records: CachedRecords, policy: StorePolicy, now: Date): Promise<void> {
    if (!this.#configuration.publishes || policy.configuredTaints.length === 0) return;
    const unrecorded = unrecordedTaintsAt(assembled(records, policy), now);
    for (const taint of unrecorded.filter((each) => !this.#triedTaints.has(textOf(each)))) {
      await Mint.recordTaint(this.#configuration, taint).catch((error: unknown) =>
        OperationLog.logFault(this.#configuration.log, "taint-missing", error),
      );
      this.#triedTaints.add(textOf(taint));
    }
  }

  #follow(policy: StorePolicy): void {
    if (this.#policy !== policy) [this.#policy, this.#view] = [policy, undefined];
  }

  #usableView(now: Date): AuthorityView {
    if (this.#clock.serves(now)) return this.#currentView(now);
    throw unreachable(this.#fault);
  }

  #currentView(now: Date): AuthorityView {
    const view = this.#view;
    if (view && isWithin(now, view)) return view;
    this.#view = AuthorityView.at(view?.store ?? assembled(this.#records, this.#policy), now);
    return this.#view;
  }

  #currentPolicy(): StorePolicy {
    return this.#configuration.currentPolicy?.() ?? this.#configuration;
  }
}

const textOf = ({ id, retiresAt }: Taint): string => `${id} ${retiresAt.toISOString()}`;

const assembled = (records: CachedRecords, policy: StorePolicy): OpenedStore =>
  assemble(
    [...records.values()].map(({ opened }) => opened),
    policy,
  );

function unreachable(fault: unknown): CaError {
  const why = fault === undefined ? "" : FetchError.whyOf(fault);
  const detail = `the store of authorities cannot be read${why}`;
  return new CaError({ reason: "store-unreachable" }, detail, fault);
}

function isWithin(now: Date, { validFrom, validUntil }: AuthorityView): boolean {
  return validFrom.getTime() <= now.getTime() && now.getTime() < validUntil.getTime();
}

async function openAll(
  stored: readonly StoredRecord[],
  known: CachedRecords,
  configuration: AuthoritiesConfiguration,
): Promise<Map<string, CachedRecord>> {
  const entries = stored.map(async (record): Promise<[string, CachedRecord]> => {
    const name = RecordName.key(record);
    const before = known.get(name);
    if (before?.value === record.value) return [name, before];
    return [name, { value: record.value, opened: await openRecord(record, configuration) }];
  });
  return new Map(await Promise.all(entries));
}
