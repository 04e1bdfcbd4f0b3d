import { expect, test } from "vitest";
import { createAuthorities } from "../../src/ca/authorities.ts";
import type { StoredRecord } from "../../src/custody/authority-store.ts";
import { sealStatement } from "../../src/custody/statement.ts";
import type { SharedWork } from "../../src/foundation/shared-work.ts";
import { webCryptoProvider } from "../../src/pki/web-crypto-provider.ts";
import { istioPhaseLengths } from "../testkit/ca/memory-mint.ts";
import { createMemoryStore } from "../testkit/ca/memory-store.ts";
import {
  clusterLocal,
  createKekRing,
  scheduleAfter,
  sealNewAuthority,
} from "../testkit/ca/sealed-authorities.ts";
import { createEventRecorder } from "../testkit/log/event-recorder.ts";

/** Loads overlap only when one counts as lost. Here each does at once. */
const unshared: SharedWork = { join: async (work) => work?.() };

const start = new Date("2026-11-21T12:00:00Z");

test("loads that overlap serve everybody, though the one that began first may end last", async () => {
  const keks = await createKekRing();
  const record = await sealNewAuthority(keks, scheduleAfter(start, [-100, 0, 86_400, 100_000]));
  const store = createMemoryStore(record);
  const ends: (() => void)[] = [];
  const authorities = createAuthorities({
    store: { ...store, load: () => new Promise((end) => ends.push(() => end([record]))) },
    trustDomain: clusterLocal,
    keks,
    configuredTaints: [],
    authorityRoot: "self",
    phaseLengths: istioPhaseLengths,
    cryptoProvider: webCryptoProvider,
    log: createEventRecorder(),
    refreshSeconds: 0,
    surviveOutageSeconds: 0,
    shareWork: () => unshared,
  });
  // With its key open already, a load takes no longer than the store.
  const first = authorities.at(new Date(start.getTime() - 1));
  ends.shift()?.();
  await first;
  const later = new Date(start.getTime() + 1);
  const answers = [authorities.at(start), authorities.at(later)];
  // Both ends come in one turn, the earlier request's last.
  for (const end of ends.toReversed()) end();
  for (const answer of answers) {
    expect((await answer).issuer?.authority.id).toBe(record.id);
  }
});

test("a load that began before a taint was seen does not take it back by ending last", async () => {
  const keks = await createKekRing();
  const record = await sealNewAuthority(keks, scheduleAfter(start, [-100, 0, 86_400, 100_000]));
  const { id } = record;
  const taint = await sealStatement(
    "taint",
    { id, taintedAt: start, retiresAt: start },
    clusterLocal,
    keks,
  );
  const ends: ((records: readonly StoredRecord[]) => void)[] = [];
  const authorities = createAuthorities({
    store: { ...createMemoryStore(), load: () => new Promise((end) => ends.push(end)) },
    trustDomain: clusterLocal,
    keks,
    configuredTaints: [],
    authorityRoot: "self",
    phaseLengths: istioPhaseLengths,
    cryptoProvider: webCryptoProvider,
    log: createEventRecorder(),
    refreshSeconds: 60,
    surviveOutageSeconds: 600,
    shareWork: () => unshared,
  });
  const after = (seconds: number): Date => new Date(start.getTime() + seconds * 1000);
  const answers = [authorities.at(after(1)), authorities.at(after(2))];
  ends[1]?.([record, taint]);
  expect((await answers[1])?.issuer).toBeUndefined();
  ends[0]?.([record]);
  await answers[0];
  expect((await authorities.at(after(3))).issuer).toBeUndefined();
});
