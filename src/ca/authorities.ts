import type { AuthorityStore, StoredRecord } from "../custody/authority-store.ts";
import { recordKey } from "../custody/record-key.ts";
import { CaError, messageOf } from "../foundation/errors.ts";
import { Semaphore } from "../foundation/work/semaphore.ts";
import type { WorkSharing } from "../foundation/work/shared-work.ts";
import { addSeconds, earlier, later } from "../pki/x509/validity.ts";
import { type AuthorityView, viewAt } from "./authority-view.ts";
import type { EventLog } from "./issuance/audit-event.ts";
import {
  assemble,
  type OpenedRecord,
  openRecord,
  type RecordOpening,
  type StorePolicy,
} from "./opened-store.ts";

/** The longest time between two reads of a store that loads. */
export const longestRefreshSeconds = 60;

/** The time to the next read of a store that cannot be read, or in which no authority signs. */
const retrySeconds = 2;

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
export interface AuthoritiesConfiguration extends RecordOpening {
  readonly store: AuthorityStore;
  /** The time between two reads of the store: a part of the propagation interval. */
  readonly refreshSeconds: number;
  /**
   * How long loaded authorities serve while the store cannot be read: at most the propagation interval,
   * because schedules rely on no reader being further behind.
   */
  readonly surviveOutageSeconds: number;
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

/** Requests come with times this old after the loop has stalled. An older time means that the clock was set back. */
const longestStallSeconds = 60;

/** A load that takes longer is lost: a request was dropped in the middle of it, or the store hangs. */
const longestLoadMilliseconds = 10_000;

/**
 * The store's authorities with their keys open, cached as values in this isolate. In steady state no
 * request reads the store. One load at a time serves all requests that need one. A record that does not
 * open is logged, reported and left out; the others still count.
 */
export function createAuthorities(configuration: AuthoritiesConfiguration): Authorities {
  const { refreshSeconds, surviveOutageSeconds, shareWork } = configuration;
  const { currentPolicy = () => configuration, waitBriefly = (load) => load } = configuration;
  const idleSeconds = Math.min(retrySeconds, refreshSeconds);
  const loading = shareWork(new Semaphore(maximumWaiting), longestLoadMilliseconds);
  let records = new Map<string, CachedRecord>();
  let policy: StorePolicy = currentPolicy();
  let opened = assemble([], policy);
  let loadedAt = new Date(0);
  let nextLoad = new Date(0);
  let latest = new Date(0);
  let loadsBegun = 0;
  let loadInUse = 0;
  let view: AuthorityView | undefined;

  /** For a request of this time. Records from later than the clock are from before it was set back. */
  const isUsable = (now: Date): boolean =>
    isWithinOutage(loadedAt, earlier(now, latest)) && isWithinOutage(latest, loadedAt);
  const isWithinOutage = (from: Date, to: Date): boolean =>
    to.getTime() - from.getTime() <= 1000 * surviveOutageSeconds;
  const isDue = (): boolean => latest.getTime() >= nextLoad.getTime();

  /** The latest time of all requests is closest to the clock, unless the clock was set back. */
  function follow(now: Date): void {
    const isSetBack = now < addSeconds(latest, -longestStallSeconds);
    latest = isSetBack ? now : later(latest, now);
    if (isSetBack) nextLoad = now;
  }

  async function load(): Promise<void> {
    const begun = latest;
    const number = ++loadsBegun;
    // The clock may be set back meanwhile.
    const instant = (): Date => earlier(begun, latest);
    // Set before the load, so that other requests use the last one meanwhile. Without one, they wait.
    if (isUsable(latest)) nextLoad = addSeconds(begun, refreshSeconds);
    try {
      const loaded = await openAll(await configuration.store.load(), records, configuration);
      // A load that counted as lost may end after the one in its place, and has older records.
      if (number < loadInUse) return;
      loadInUse = number;
      loadedAt = instant();
      records = loaded;
      reassemble();
      const hasIssuer = currentView(loadedAt).issuer !== undefined;
      nextLoad = addSeconds(loadedAt, hasIssuer ? refreshSeconds : idleSeconds);
    } catch (error) {
      nextLoad = addSeconds(instant(), retrySeconds);
      logUnreachable(configuration.log, error);
    }
  }

  function reassemble(): void {
    policy = currentPolicy();
    opened = assemble(
      [...records.values()].map((record) => record.opened),
      policy,
    );
    view = undefined;
  }

  function currentView(now: Date): AuthorityView {
    if (policy !== currentPolicy()) reassemble();
    if (!view || !isWithin(now, view)) {
      view = viewAt(opened, now);
    }
    return view;
  }

  function usableView(now: Date): AuthorityView {
    if (isUsable(now)) return currentView(now);
    throw unreachable();
  }

  async function afterLoad(now: Date): Promise<AuthorityView> {
    // Only the first load of all is worth any wait: after it, another replica may answer sooner.
    const wait = loadedAt.getTime() === 0 ? (loaded: Promise<void>) => loaded : waitBriefly;
    await wait(loading.join(load));
    // The load under way may have begun too long before this request; another one has not.
    if (!isUsable(now) && isDue()) await wait(loading.join(load));
    return usableView(now);
  }

  return {
    at: (now) => {
      follow(now);
      return isDue() ? afterLoad(now) : usableView(now);
    },
    renew: async (now) => {
      follow(now);
      const before = loadsBegun;
      // The load under way began before this call.
      await loading.join();
      await loading.join(load);
      if (loadInUse <= before) throw unreachable();
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
