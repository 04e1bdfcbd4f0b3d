import { Authorities, type AuthoritiesConfiguration } from "../../../src/ca/authorities.ts";
import type { AuthorityStore, StoredRecord } from "../../../src/custody/authority-store.ts";
import type { KekRing } from "../../../src/custody/kek.ts";
import { sharePromises } from "../../../src/node/limits/promise-sharing.ts";
import { webCryptoProvider } from "../../../src/pki/web-crypto.ts";
import { createEventRecorder, type EventRecorder } from "../log/event-recorder.ts";
import { istioPhaseLengths } from "./memory-mint.ts";
import { createMemoryStore, type MemoryStore } from "./memory-store.ts";
import {
  clusterLocal,
  createKekRing,
  scheduleAfter,
  sealNewAuthority,
} from "./sealed-authorities.ts";

/** When the time of these tests begins, and the instant so many seconds after it. */
export const start: Date = new Date("2026-11-21T12:00:00Z");
export const later = (seconds: number): Date => new Date(start.getTime() + seconds * 1000);

export const keks: KekRing = await createKekRing();

/** The record of a new authority whose phases begin so many seconds after the start; by default it signs for a day. */
export const sealed = (
  phases: Parameters<typeof scheduleAfter>[1] = [-100, 0, 86_400, 100_000],
  ring = keks,
): Promise<StoredRecord> => sealNewAuthority(ring, scheduleAfter(start, phases));

/** The authorities of a memory store, with the store and the log. */
interface LoadedAuthorities {
  readonly authorities: Authorities;
  readonly store: MemoryStore;
  readonly log: EventRecorder;
}

/** How long these authorities serve while their store is down. */
export const surviveOutageSeconds = 3600;

export function loadAuthorities(
  keks: KekRing,
  ...records: readonly StoredRecord[]
): LoadedAuthorities {
  const store = createMemoryStore(...records);
  return { ...loadAuthoritiesFrom(store, keks), store };
}

/** {@link loadAuthorities} of a store that the test has made. */
export function loadAuthoritiesFrom(
  store: AuthorityStore,
  keks: KekRing,
  changes: Partial<AuthoritiesConfiguration> = {},
): Omit<LoadedAuthorities, "store"> {
  const log = createEventRecorder();
  const authorities = Authorities.create({
    store,
    trustDomain: clusterLocal,
    keks,
    cryptoProvider: webCryptoProvider,
    configuredTaints: [],
    authorityRoot: "self",
    phaseLengths: istioPhaseLengths,
    log,
    refreshSeconds: Authorities.longestRefreshSeconds,
    surviveOutageSeconds,
    shareWork: sharePromises,
    ...changes,
  });
  return { authorities, log };
}

/** The id of the signing authority at an instant, if there is one. */
export async function signerOf(authorities: Authorities, now: Date): Promise<string | undefined> {
  return (await authorities.at(now)).issuer?.authority.id;
}
