import { type AuthorityStore, recordKey, type StoredRecord } from "../custody/authority-store.ts";
import { CaError, messageOf } from "../foundation/errors.ts";
import { Semaphore, type WorkSharing } from "../foundation/shared-work.ts";
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

/** The most requests that wait for one load. Each is in memory anyway, and most are authenticated. */
const maximumWaiting = 5000;

const toItsEnd = (load: Promise<void>): Promise<void> => load;

/**
 * The store's authorities with their keys open, cached as values in this isolate. In steady state no
 * request reads the store. One load at a time serves all requests that need one. A record that does not
 * open is logged, reported and left out; the others still count.
 */
export function createAuthorities(configuration: AuthoritiesConfiguration): Authorities {
  const { store, log, shareWork, waitBriefly = toItsEnd } = configuration;
  const loading = shareWork(new Semaphore(maximumWaiting), 1000 * longestLoadSeconds);
  const clock = new LoadClock(configuration);
  const { currentPolicy = () => configuration } = configuration;
  let records: ReadonlyMap<string, CachedRecord> = new Map();
  let policy = currentPolicy();
  let view: AuthorityView | undefined;

  async function load(): Promise<void> {
    const begun = clock.begin();
    try {
      const loaded = await openAll(await store.load(), records, configuration);
      if (!clock.use(begun)) return;
      records = loaded;
      view = undefined;
      if (!currentView(clock.inUse.at).issuer) clock.hasten();
    } catch (error) {
      clock.retry(begun);
      logUnreachable(log, error);
    }
  }

  function currentView(now: Date): AuthorityView {
    const current = currentPolicy();
    if (policy !== current) [policy, view] = [current, undefined];
    if (!view || !isWithin(now, view)) view = viewAt(view?.store ?? assembled(), now);
    return view;
  }

  function assembled(): OpenedStore {
    return assemble(
      [...records.values()].map(({ opened }) => opened),
      policy,
    );
  }

  function usableView(now: Date): AuthorityView {
    if (clock.serves(now)) return currentView(now);
    throw unreachable();
  }

  async function afterLoad(now: Date): Promise<AuthorityView> {
    // Only the first load of all is worth any wait: after it, another replica may answer sooner.
    const wait = clock.inUse.number === 0 ? toItsEnd : waitBriefly;
    await wait(loading.join(load));
    // The load under way may have begun too long before this request; another one has not.
    if (!clock.serves(now) && clock.isDue) await wait(loading.join(load));
    return usableView(now);
  }

  return {
    at: (now) => {
      clock.follow(now);
      return clock.isDue ? afterLoad(now) : usableView(now);
    },
    renew: async (now) => {
      clock.follow(now);
      const before = clock.begun;
      // The load under way began before this call.
      await loading.join();
      await loading.join(load);
      if (clock.inUse.number <= before) throw unreachable();
    },
  };
}

const unreachable = (): CaError =>
  new CaError({ reason: "store-unreachable" }, "the store of authorities cannot be read");

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
