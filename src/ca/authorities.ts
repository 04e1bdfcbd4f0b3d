import { type AuthorityStore, recordKey, type StoredRecord } from "../custody/authority-store.ts";
import { CaError, causeOf, messageOf } from "../foundation/errors.ts";
import { FetchError } from "../foundation/fetch.ts";
import { Semaphore, type SharedWork, type WorkSharing } from "../foundation/shared-work.ts";
import { type AuthorityView, viewAt } from "./authority-view.ts";
import type { EventLog } from "./issuance/audit-event.ts";
import { LoadClock, type LoadTimes, longestLoadSeconds } from "./load-clock.ts";
import {
  assemble,
  type OpenedRecord,
  type OpenedStore,
  openRecord,
  type RecordOpening,
  type StorePolicy,
} from "./opened-store.ts";

/** The longest time between two reads of a store that loads. */
export const longestRefreshSeconds = 60;

/** The authorities of a store. */
export interface Authorities {
  /**
   * @throws CaError `store-unreachable` while the store cannot be read and the last load is too old,
   *   `too-many-waiting` for a load.
   */
  at(now: Date): AuthorityView | Promise<AuthorityView>;
  /**
   * Reads the store by a load that begins now, so that every view from then on is at least as new.
   *
   * @throws CaError `store-unreachable`, `too-many-waiting`
   */
  renew(now: Date): Promise<void>;
}

interface CachedRecord {
  readonly value: string;
  readonly opened: OpenedRecord;
}

/** How authorities are loaded, and for how long they serve. */
export interface AuthoritiesConfiguration extends RecordOpening, LoadTimes {
  readonly store: AuthorityStore;
  readonly shareWork: WorkSharing;
  /**
   * Waits for a load, but not for long: a store that hangs must not hold up a request, which has the last load
   * meanwhile, or is refused. Absent where a load ends with its request.
   */
  readonly waitBriefly?: ((load: Promise<void>) => Promise<void>) | undefined;
  /** The policy at this moment, where it may change: another object once it has. */
  readonly currentPolicy?: (() => StorePolicy) | undefined;
}

/** How often a request waits on for a load where no other serves it, before it is refused. */
const furtherWaits = 4;

/** The most requests that wait for one load. Each is in memory anyway, and most are authenticated. */
const maximumWaiting = 5000;

const toItsEnd = (load: Promise<void>): Promise<void> => load;

export function createAuthorities(configuration: AuthoritiesConfiguration): Authorities {
  return new LoadedAuthorities(configuration);
}

/**
 * The store's authorities with their keys open, cached as values in this isolate. In steady state no
 * request reads the store. One load at a time serves all requests that need one. A record that does not
 * open is logged, reported and left out; the others still count.
 */
class LoadedAuthorities implements Authorities {
  readonly #configuration: AuthoritiesConfiguration;
  readonly #loading: SharedWork;
  readonly #clock: LoadClock;
  #records: ReadonlyMap<string, CachedRecord> = new Map();
  #policy: StorePolicy;
  #view: AuthorityView | undefined;
  /** Why the last load that failed did. */
  #fault: unknown;

  constructor(configuration: AuthoritiesConfiguration) {
    this.#configuration = configuration;
    const room = new Semaphore(maximumWaiting);
    this.#loading = configuration.shareWork(room, 1000 * longestLoadSeconds);
    this.#clock = new LoadClock(configuration);
    this.#policy = this.#currentPolicy();
  }

  at(now: Date): AuthorityView | Promise<AuthorityView> {
    this.#clock.follow(now);
    return this.#clock.isDue ? this.#afterLoad(now) : this.#usableView(now);
  }

  async renew(now: Date): Promise<void> {
    this.#clock.follow(now);
    const before = this.#clock.begun;
    // The load under way began before this call.
    await this.#loading.join();
    await this.#loading.join(() => this.#load());
    if (this.#clock.inUse.number <= before) throw unreachable(this.#fault);
  }

  async #afterLoad(now: Date): Promise<AuthorityView> {
    const { waitBriefly = toItsEnd } = this.#configuration;
    const join = (): Promise<void> => this.#loading.join(() => this.#load());
    // Only the first load of all is worth any wait: after it, another replica may answer sooner.
    const wait = this.#clock.inUse.number === 0 ? toItsEnd : waitBriefly;
    await wait(join());
    // The load under way may have begun too long before this request; another one has not. In a busy process either
    // may take longer than the last one serves.
    for (let i = 0; i < furtherWaits && !this.#clock.serves(now) && this.#clock.isDue; i++)
      await wait(join());
    return this.#usableView(now);
  }

  async #load(): Promise<void> {
    const { store, log } = this.#configuration;
    const begun = this.#clock.begin();
    try {
      const loaded = await openAll(await store.load(), this.#records, this.#configuration);
      if (!this.#clock.use(begun)) return;
      this.#records = loaded;
      this.#view = undefined;
      if (!this.#currentView(this.#clock.inUse.at).issuer) this.#clock.refreshSoon();
    } catch (error) {
      this.#clock.retry(begun);
      this.#fault = error;
      logUnreachable(log, error);
    }
  }

  #usableView(now: Date): AuthorityView {
    if (this.#clock.serves(now)) return this.#currentView(now);
    throw unreachable(this.#fault);
  }

  #currentView(now: Date): AuthorityView {
    const policy = this.#currentPolicy();
    if (this.#policy !== policy) [this.#policy, this.#view] = [policy, undefined];
    if (!this.#view || !isWithin(now, this.#view)) {
      this.#view = viewAt(this.#view?.store ?? this.#assembled(), now);
    }
    return this.#view;
  }

  #assembled(): OpenedStore {
    return assemble(
      [...this.#records.values()].map(({ opened }) => opened),
      this.#policy,
    );
  }

  #currentPolicy(): StorePolicy {
    return this.#configuration.currentPolicy?.() ?? this.#configuration;
  }
}

function unreachable(fault: unknown): CaError {
  const why = fault === undefined ? "" : whyOf(fault);
  return new CaError(
    { reason: "store-unreachable" },
    `the store of authorities cannot be read${why}`,
    fault,
  );
}

/** `/readyz` is for strangers as well: neither a path nor the address of a service, which the log has. */
function whyOf(fault: unknown): string {
  const cause = fault instanceof FetchError ? fault.cause : undefined;
  if (cause instanceof FetchError) return `: it ${cause.message.replace(/:.*/s, "")}`;
  return ` (${causeOf(fault)})`;
}

function isWithin(now: Date, { validFrom, validUntil }: AuthorityView): boolean {
  return validFrom.getTime() <= now.getTime() && now.getTime() < validUntil.getTime();
}

function logUnreachable({ operation }: EventLog, error: unknown): void {
  operation({ event: "store-unreachable", level: "error", detail: messageOf(error) });
}

async function openAll(
  stored: readonly StoredRecord[],
  known: ReadonlyMap<string, CachedRecord>,
  configuration: AuthoritiesConfiguration,
): Promise<Map<string, CachedRecord>> {
  const entries = stored.map(async (record): Promise<[string, CachedRecord]> => {
    const name = recordKey(record);
    const before = known.get(name);
    if (before?.value === record.value) return [name, before];
    return [name, { value: record.value, opened: await openRecord(record, configuration) }];
  });
  return new Map(await Promise.all(entries));
}
