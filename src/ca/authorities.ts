import { RecordError } from "../custody/authority-record.ts";
import type { AuthorityStore, StoredRecord } from "../custody/authority-store.ts";
import type { KekRing } from "../custody/kek.ts";
import { openAuthority } from "../custody/seal.ts";
import { CaError } from "../errors.ts";
import type { Issuer } from "../pki/issuer.ts";
import type { TrustDomain } from "../pki/spiffe-id.ts";
import { addSeconds } from "../pki/validity.ts";
import type { EventLog } from "./audit-event.ts";
import { type AuthorityView, viewAt } from "./authority-view.ts";

/** A loaded store is looked at again after this long at the latest. */
export const longestRefreshSeconds = 60;

/** A store that cannot be read, or in which nothing signs, is looked at again after this long. */
const retrySeconds = 2;

/** What the authorities of a store are worth at an instant. */
export interface Authorities {
  /** @throws CaError `store-unreachable` when nothing recent enough is known. */
  at(now: Date): AuthorityView | Promise<AuthorityView>;
}

interface OpenedRecord {
  readonly value: string;
  readonly opened: Issuer | RecordError;
}

/** What the authorities are loaded with. */
export interface AuthoritiesConfiguration {
  readonly store: AuthorityStore;
  readonly trustDomain: TrustDomain;
  readonly keks: KekRing;
  readonly log: EventLog;
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
  let records = new Map<string, OpenedRecord>();
  let loadedAt = new Date(0);
  let nextLoad = new Date(0);
  let view: AuthorityView | undefined;

  const isUsable = (now: Date): boolean => now <= addSeconds(loadedAt, surviveOutageSeconds);

  async function load(now: Date): Promise<void> {
    // Set first, so that others go on with what there is; where there is nothing, they load as well.
    if (isUsable(now)) nextLoad = addSeconds(now, refreshSeconds);
    try {
      records = await openAll(await configuration.store.load(), records, configuration);
      // Loads overlap, and one that began earlier may end later.
      if (now > loadedAt) loadedAt = now;
      view = undefined;
      nextLoad = addSeconds(now, currentView(now).issuer ? refreshSeconds : idleSeconds);
    } catch (error) {
      nextLoad = addSeconds(now, retrySeconds);
      logUnreachable(configuration.log, error);
    }
  }

  function currentView(now: Date): AuthorityView {
    if (!view || now >= view.validUntil || now < view.validFrom) {
      view = viewAt(
        [...records.values()].map(({ opened }) => opened),
        now,
      );
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

function logUnreachable({ operation }: EventLog, error: unknown): void {
  operation({
    event: "store-unreachable",
    level: "error",
    detail: error instanceof Error ? error.message : "the store cannot be read",
  });
}

async function openAll(
  stored: readonly StoredRecord[],
  known: ReadonlyMap<string, OpenedRecord>,
  configuration: AuthoritiesConfiguration,
): Promise<Map<string, OpenedRecord>> {
  const entries = stored.map(async (record): Promise<[string, OpenedRecord]> => {
    const before = known.get(record.id);
    if (before?.value === record.value) return [record.id, before];
    return [record.id, { value: record.value, opened: await open(record, configuration) }];
  });
  return new Map(await Promise.all(entries));
}

async function open(
  record: StoredRecord,
  { trustDomain, keks, log }: AuthoritiesConfiguration,
): Promise<Issuer | RecordError> {
  try {
    return await openAuthority(record, trustDomain, keks);
  } catch (error) {
    if (!(error instanceof RecordError)) throw error;
    log.operation({
      event: "record-refused",
      level: "error",
      authority: record.id.slice(0, 64),
      check: error.check,
      detail: error.message,
    });
    return error;
  }
}
