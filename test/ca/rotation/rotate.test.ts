import { expect, test } from "vitest";
import { Mint, mintTokenKey } from "../../../src/ca/mint.ts";
import { Rotation } from "../../../src/ca/rotation/rotate.ts";
import { parseAuthorityRecord } from "../../../src/custody/authority-record.ts";
import { Kek } from "../../../src/custody/kek.ts";
import { Statement } from "../../../src/custody/statement.ts";
import { createSharedStore } from "../../../src/node/stores/object-space.ts";
import { addSeconds } from "../../../src/pki/x509/validity.ts";
import { authoritiesIn, createMemoryMint, type MemoryMint } from "../../testkit/ca/memory-mint.ts";
import { createKekRing, scheduleAfter } from "../../testkit/ca/sealed-authorities.ts";
import { openStore } from "../../testkit/ca/tainted-ca.ts";
import { createMemorySpace } from "../../testkit/stores/memory-space.ts";

const inception = new Date("2026-11-21T12:00:00Z");
const day = 86_400;

const keks = await createKekRing();

async function found(): Promise<MemoryMint> {
  const mint = createMemoryMint(keks);
  await Rotation.rotate(mint, inception);
  return mint;
}

const after = (days: number): Date => addSeconds(inception, days * day);

test("a root that signs no CRL fails the run, after every mint has rotated", async () => {
  const mints = [createMemoryMint(keks), createMemoryMint(keks)];
  const crlRoot = { keep: () => Promise.reject(new Error("no CRL")) } as unknown as Mint["crlRoot"];
  const [first, ...others] = mints.map((mint) => ({ ...mint, crlRoot }));
  const run = Rotation.rotateAll([...(first ? [first] : []), ...others], inception);
  await expect(run).rejects.toThrow("no CRL");
  expect((await Promise.all(mints.map(authoritiesIn))).map(({ length }) => length)).toEqual([1, 1]);
});

test("does nothing while nothing is due, however often it runs", async () => {
  const mint = await found();
  const before = new Map(mint.store.records);
  for (const days of [0, 1, 30, 100, 134]) await Rotation.rotate(mint, after(days));
  expect(mint.store.records).toEqual(before);
});

test("mints a successor in time for every bundle to hold it before it signs", async () => {
  const mint = await found();
  await Rotation.rotate(mint, after(136));
  const [first, second] = await authoritiesIn(mint);
  expect(second?.schedule.publishedFrom).toEqual(addSeconds(after(136), 600));
  expect(second?.schedule.signsFrom).toEqual(addSeconds(after(136 + 90), 1200));
  expect(second?.schedule.signsFrom.getTime()).toBeLessThan(
    first?.schedule.signsUntil.getTime() ?? 0,
  );
});

test("mints one successor, not one at every run", async () => {
  const mint = await found();
  for (let days = 136; days < 226; days += 10) await Rotation.rotate(mint, after(days));
  expect(mint.store.records.size).toBe(2);
});

test("records a taint that the configuration states and the store lacks, once", async () => {
  const mint = await found();
  const [first] = await authoritiesIn(mint);
  const configuredTaints = [{ idPrefix: `${first?.id}`, rootUntil: undefined }];
  for (const days of [1, 2]) await Rotation.rotate({ ...mint, configuredTaints }, after(days));
  const taints = [...mint.store.records.keys()].filter((key) => key.startsWith("taint/"));
  expect(taints).toEqual([expect.stringContaining(`${first?.id}`)]);
  const detail = `the store lacks the taint of ${first?.id} that TAINTED_AUTHORITIES states`;
  expect(mint.log.operations.filter(({ event }) => event === "taint-missing")).toEqual([
    { event: "taint-missing", level: "warning", detail },
  ]);
});

test("deletes a record of revocations once no CRL needs it, and keeps the others", async () => {
  const mint = await found();
  for (const [serialNumber, days] of [
    ["01", 1],
    ["02", 400],
  ] as const)
    await Mint.storeStatement(mint, "revocation", {
      authority: "aa",
      revokedAt: inception,
      knownFrom: inception,
      reason: "superseded",
      certificates: new Map([[serialNumber, after(days).getTime() / 1000]]),
    });
  await Rotation.rotate(mint, after(10));
  const { revocations } = await openStore(mint);
  expect(revocations.flatMap(({ certificates }) => [...certificates.keys()])).toEqual(["02"]);
});

test("gives the successor the kind of key that is configured by then", async () => {
  const mint = await found();
  await Rotation.rotate({ ...mint, authorityKey: "EC-P384" }, after(136));
  expect((await authoritiesIn(mint)).map(({ publicKey }) => publicKey.algorithm)).toEqual([
    "EC-P256",
    "EC-P384",
  ]);
});

test("logs an error when a rotation is overdue, and mints all the same", async () => {
  const mint = await found();
  await Rotation.rotate(mint, after(300));
  expect(mint.log.operations).toContainEqual(
    expect.objectContaining({ event: "rotation-overdue", level: "error" }),
  );
  expect(mint.store.records.size).toBe(2);
});

test("prunes an authority once it is retired and the bundle has changed since", async () => {
  const mint = await found();
  const [first] = await authoritiesIn(mint);
  for (let days = 0; days < 460; days += 20) await Rotation.rotate(mint, after(days));
  const retired = `authority/${first?.id}`;
  expect(mint.store.records.has(retired)).toBe(true);
  for (let days = 460; days < 760; days += 20) await Rotation.rotate(mint, after(days));
  expect(mint.store.records.has(retired)).toBe(false);
  expect(mint.store.records.size).toBeGreaterThan(0);
  expect(mint.log.operations).toContainEqual(
    expect.objectContaining({ event: "authority-pruned", authority: first?.id }),
  );
});

test("seals records again under the newest KEK, and changes nothing else in them", async () => {
  const mint = await found();
  const [before] = await authoritiesIn(mint);
  const newest = await Kek.import("newest", crypto.getRandomValues(new Uint8Array(32)));
  await Rotation.rotate({ ...mint, keks: [newest, ...keks] }, after(1));
  const [[, value = ""] = []] = mint.store.records;
  expect(parseAuthorityRecord(value).kek).toBe("newest");
  expect(mint.log.operations.map(({ event }) => event)).toContain("record-resealed");
  const [resealed] = await authoritiesIn({ ...mint, keks: [newest] });
  expect(resealed?.certificate.der).toEqual(before?.certificate.der);
  expect(resealed?.schedule).toEqual(before?.schedule);
});

test("seals statements of every kind and keys for tokens again under the newest KEK, each with its line", async () => {
  const mint = await found();
  const content = { authority: "aa", reason: "superseded", knownFrom: inception } as const;
  const certificates = new Map([["01", after(400).getTime() / 1000]]);
  await Mint.storeStatement(mint, "revocation", { ...content, revokedAt: inception, certificates });
  const denial = { subject: "ns/a/sa/b", knownFrom: inception, until: undefined, why: undefined };
  await Mint.storeRecord(mint, await Statement.seal("denial", denial, mint));
  await Mint.storeStatement(mint, "backup", { madeAt: inception });
  await mintTokenKey(mint, "ES256", scheduleAfter(inception, [0, 0, 9 * day, 9 * day]));
  const newest = await Kek.import("newest", crypto.getRandomValues(new Uint8Array(32)));
  await Rotation.rotate({ ...mint, keks: [newest, ...keks] }, after(1));
  const values = [...mint.store.records.values()].map((value) => JSON.parse(value).kek);
  expect(values).toEqual(Array(5).fill("newest"));
  const resealed = mint.log.operations.filter(({ event }) => event === "record-resealed");
  expect(resealed.map(({ record, authority }) => `${record}/${authority}`).toSorted()).toEqual(
    [...mint.store.records.keys()].toSorted(),
  );
});

test("brings back no record that an operator deletes while it is sealed again", async () => {
  const space = createMemorySpace();
  const shared = createSharedStore(space);
  const mint = { ...createMemoryMint(keks), store: shared };
  await Rotation.rotate(mint, inception);
  const load = async () => {
    const stored = await shared.load();
    space.objects.clear();
    return stored;
  };
  const newest = await Kek.import("newest", crypto.getRandomValues(new Uint8Array(32)));
  await Rotation.rotate({ ...mint, store: { ...shared, load }, keks: [newest, ...keks] }, after(1));
  expect(space.objects.size).toBe(0);
  expect(mint.log.operations.map(({ event }) => event)).not.toContain("record-resealed");
});

test("does the other steps when a record does not open, keeps that record, and fails visibly", async () => {
  const mint = await found();
  const broken = `authority/${"ab".repeat(20)}`;
  mint.store.records.set(broken, "broken");
  await expect(Rotation.rotate(mint, after(136))).rejects.toThrow("the rotation met 1 faults");
  expect(mint.store.records.size).toBe(3);
  expect(mint.store.records.get(broken)).toBe("broken");
  expect(mint.log.operations).toContainEqual(
    expect.objectContaining({ event: "record-refused", level: "error" }),
  );
});

test("mints nothing when no record opens: a wrong KEK is not an empty store", async () => {
  const mint = await found();
  const before = new Map(mint.store.records);
  const wrong = await createKekRing();
  await expect(Rotation.rotate({ ...mint, keks: wrong }, after(136))).rejects.toThrow(
    AggregateError,
  );
  expect(mint.store.records).toEqual(before);
});

test("fails visibly when the store takes no record, and mints at the next run", async () => {
  const mint = await found();
  const full: MemoryMint = {
    ...mint,
    store: { ...mint.store, put: () => Promise.reject(new Error("full")) },
  };
  await expect(Rotation.rotate(full, after(136))).rejects.toThrow(AggregateError);
  await Rotation.rotate(mint, after(136));
  expect(mint.store.records.size).toBe(2);
});

test("fails visibly when the store cannot be read, and founds nothing", async () => {
  const mint = await found();
  mint.store.outage = new Error("away");
  await expect(Rotation.rotate(mint, after(1))).rejects.toThrow();
  mint.store.outage = undefined;
  expect(mint.store.records.size).toBe(1);
});

test("two runs at once leave two successors, both good", async () => {
  const mint = await found();
  await Promise.all([Rotation.rotate(mint, after(136)), Rotation.rotate(mint, after(136))]);
  expect(await authoritiesIn(mint)).toHaveLength(3);
  await Rotation.rotate(mint, after(137));
  expect(await authoritiesIn(mint)).toHaveLength(3);
});

test("rotates every signer, and has roots sign their CRLs, whichever of them meets a fault", async () => {
  for (const down of [0, 1, 2]) {
    const mints = await Promise.all([found(), found(), found()]);
    Object.assign(mints[down]?.store ?? {}, { outage: new Error("down") });
    let kept = 0;
    const keep = async () => void kept++;
    const withRoot = mints.map((mint, i) => (i === 1 ? { ...mint, crlRoot: { keep } } : mint));
    const all = withRoot as unknown as readonly Mint[];
    await expect(Rotation.rotateAll(all, after(136))).rejects.toThrow("down");
    expect(mints.map(({ store }) => store.records.size)).toEqual(
      mints.map((_, i) => (i === down ? 1 : 2)),
    );
    expect(kept).toBe(1);
  }
});

test("tells every fault of a run", async () => {
  const mints = await Promise.all([found(), found()]);
  for (const { store } of mints) store.outage = new Error("down");
  await expect(Rotation.rotateAll(mints, after(136))).rejects.toThrow("2 rotations met faults");
});
