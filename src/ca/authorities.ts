import type { AuthorityStore, StoredRecord } from "../custody/authority-store.ts";
import { recordKey } from "../custody/record-key.ts";
import { CaError, messageOf } from "../foundation/errors.ts";
import { addSeconds } from "../pki/x509/validity.ts";
import type { EventLog } from "./audit-event.ts";
import { type AuthorityView, viewAt } from "./authority-view.ts";
import { assemble, type OpenedRecord, openRecord, type RecordOpening } from "./opened-store.ts";

/** A loaded store is looked at again after this long at the latest. */
export const longestRefreshSeconds = 60;

/** A store that cannot be read, or in which nothing signs, is looked at again after this long. */
const retrySeconds = 2;

/** What the authorities of a store are worth at an instant. */
export interface Authorities {
  /** @throws CaError `store-unreachable` when nothing recent enough is known. */
  at(now: Date): AuthorityView | Promise<AuthorityView>;
}

interface CachedRecord {
  readonly value: string;
  readonly opened: OpenedRecord;
}

/** What the authorities are loaded with. */
export interface AuthoritiesConfiguration extends RecordOpening {
  readonly store: AuthorityStore;
  /** A loaded store is looked at again after this long: part of the propagation interval. */
  readonly refreshSeconds: number;
  /**
   * What was loaded serves for this long while the store cannot be read: no longer than the
   * propagation interval, because schedules count on no reader being further behind.
   */
  readonly surviveOutageSeconds: number;
}

/**
 * The store's authorities with their keys open, cached as values in this isolate: in steady state a
 * request reads nothing. A record that does not open is logged, reported and left out; the others
 * carry on.
 */
export function createAuthorities(configuration: AuthoritiesConfiguration): Authorities {
  const { refreshSeconds, surviveOutageSeconds } = configuration;
  const idleSeconds = Math.min(retrySeconds, refreshSeconds);
  let records = new Map<string, CachedRecord>();
  let opened = assemble([]);
  let loadedAt = new Date(0);
  let nextLoad = new Date(0);
  let view: AuthorityView | undefined;

  const isUsable = (now: Date): boolean =>
    now.getTime() <= loadedAt.getTime() + 1000 * surviveOutageSeconds;

  async function load(now: Date): Promise<void> {
    // Set first, so that others go on with what there is; where there is nothing, they load as well.
    if (isUsable(now)) nextLoad = addSeconds(now, refreshSeconds);
    try {
      const loaded = await openAll(await configuration.store.load(), records, configuration);
      // Loads overlap, and one that began earlier may end later: it knows less.
      if (now < loadedAt) return;
      loadedAt = now;
      records = loaded;
      opened = assemble([...records.values()].map((record) => record.opened));
      view = undefined;
      nextLoad = addSeconds(now, currentView(now).issuer ? refreshSeconds : idleSeconds);
    } catch (error) {
      nextLoad = addSeconds(now, retrySeconds);
      logUnreachable(configuration.log, error);
    }
  }

  function currentView(now: Date): AuthorityView {
    if (!view || !isWithin(now, view)) {
      view = viewAt(opened, now);
    }
    return view;
  }

  function usableView(now: Date): AuthorityView {
    if (isUsable(now)) return currentView(now);
    throw new CaError({ reason: "store-unreachable" }, "the store of authorities cannot be read");
  }

  async function afterLoad(now: Date): Promise<AuthorityView> {
    await load(now);
    return usableView(now);
  }

  return {
    at: (now) => (now.getTime() >= nextLoad.getTime() ? afterLoad(now) : usableView(now)),
  };
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
