import { describe, expect } from "vitest";
import {
  exposuresAt,
  missingTaintsAt,
  unrecordedTaintsAt,
} from "../../../src/ca/authority-view.ts";
import { Mint } from "../../../src/ca/mint.ts";
import { assemble, type OpenedRecord, type OpenedStore } from "../../../src/ca/opened-store.ts";
import { Rotation } from "../../../src/ca/rotation/rotate.ts";
import type { StoredRecord } from "../../../src/custody/authority-store.ts";
import { Kek } from "../../../src/custody/kek.ts";
import { createTaint } from "../../../src/pki/authority/new-taint.ts";
import { addSeconds } from "../../../src/pki/x509/validity.ts";
import { caTest as test } from "../../testkit/ca/ca-test.ts";
import { istioPhaseLengths } from "../../testkit/ca/memory-mint.ts";
import type { RunningCa } from "../../testkit/ca/running-ca.ts";
import { sealNewAuthority } from "../../testkit/ca/sealed-authorities.ts";
import {
  countOf,
  decideTaint,
  openStore,
  propagation,
  publishedBundle,
  readiness,
  refresh,
  signerOf,
  startSigningCa,
  taint,
  taintKeyOf,
} from "../../testkit/ca/tainted-ca.ts";

const newKek = (id: string) => Kek.import(id, crypto.getRandomValues(new Uint8Array(32)));

test("a taint of the configuration that no record states is told of authorities, roots and keys for tokens, until they have retired", () => {
  const now = new Date("2026-11-21T12:00:00Z");
  const schedule = { publishedFrom: now, retiresAt: addSeconds(now, 1) };
  const [a, b, c, d] = ["a", "b", "c", "d"].map((id) => ({ id, schedule }));
  const retired = { id: "retired", schedule: { publishedFrom: now, retiresAt: now } };
  const taintOf = (id: string, retiresAt = now) => ({ id, taintedAt: now, retiresAt });
  const unrecorded = ["a", "b", "c", "d"].map((id) => taintOf(id));
  const taints = [...unrecorded, taintOf("retired")];
  const parts = { authorities: [a, d, retired], additionalRoots: [b], tokenKeys: [c] };
  // Of the last one the record has another instant.
  const storedTaints = [taintOf("d", addSeconds(now, 1))];
  const store = { ...parts, taints, storedTaints } as unknown as OpenedStore;
  expect(unrecordedTaintsAt(store, now)).toEqual(unrecorded);
  const told = missingTaintsAt(store, now);
  expect(told.map((each) => /of (.) that/.exec(each)?.[1])).toEqual(["a", "b", "c"]);
});

test("a key for tokens that the configuration taints leaves the history with the documents, whenever a root would", () => {
  const now = new Date("2026-11-21T12:00:00Z");
  const schedule = { publishedFrom: now, retiresAt: addSeconds(now, 60) };
  const value = { id: "ab", schedule };
  const records = [{ kind: "tokenKey", id: "ab", value }] as unknown as OpenedRecord[];
  const configuredTaints = [{ idPrefix: "ab", rootUntil: addSeconds(now, 30) }];
  const policy = {
    configuredTaints,
    authorityRoot: "self",
    phaseLengths: istioPhaseLengths,
  } as const;
  expect(assemble(records, policy).taints).toEqual([{ id: "ab", taintedAt: now, retiresAt: now }]);
});

test("a tainted root is told as trusted until the last that has it leaves the bundle", () => {
  const now = new Date("2026-11-21T12:00:00Z");
  const until = (seconds: number) => ({ publishedFrom: now, retiresAt: addSeconds(now, seconds) });
  const roots = [new Uint8Array([1])];
  const authority = { id: "a", schedule: until(60), roots };
  const additionalRoots = [{ id: "b", schedule: until(120), roots }];
  const taints = [{ id: "a", taintedAt: now, retiresAt: addSeconds(now, 60) }];
  const store = { openAuthorities: [{ authority }], additionalRoots, taints };
  expect(exposuresAt(store as unknown as OpenedStore, now)).toEqual([
    "a is tainted, and its root trusted until 2026-11-21T12:02:00.000Z",
  ]);
});

describe("a taint that does not open", () => {
  test.each<[string, (value: string) => string, string]>([
    ["is no JSON", () => "junk", "form"],
    ["is empty", () => "", "form"],
    ["was altered", (value) => value.replace('"taintedAt":"2026', '"taintedAt":"2099'), "seal"],
    ["is of tomorrow's version", (value) => value.replace('"version":1', '"version":2'), "form"],
    ["is under a KEK that is gone", (value) => value.replace('"kek":"k1"', '"kek":"k0"'), "kek"],
  ])(
    "because it %s stops its authority, whose root stays, and gets a fresh one minted",
    async (_, spoil, check) => {
      const ca = await startSigningCa({}, { hasNoNamesake: true });
      const before = await publishedBundle(ca);
      const { id } = await decideTaint(ca, "immediately");
      await Mint.recordTaint(ca.mint, await decideTaint(ca, "immediately"));
      const key = taintKeyOf(ca, id);
      const spoilt = spoil(ca.store.records.get(key) ?? "");
      ca.store.records.set(key, spoilt);
      await expect(Rotation.rotate(ca.mint, ca.now())).rejects.toThrow(AggregateError);
      ca.pass(refresh);
      expect(await signerOf(ca)).toBeUndefined();
      expect(await publishedBundle(ca)).toEqual(before);
      const { ready, reasons } = await readiness(ca);
      expect(ready).toBe(false);
      const record = key.slice("taint/".length);
      expect(reasons).toContain(`the taint ${record} does not open: ${check}`);
      ca.pass(propagation - refresh);
      expect([undefined, id]).not.toContain(await signerOf(ca));
      expect((await publishedBundle(ca))?.roots).toHaveLength(2);
      expect(await readiness(ca)).toMatchObject({ ready: true });
      expect(ca.store.records.get(key)).toBe(spoilt);
    },
  );

  test("mints one fresh authority, not one at every run", async ({ ca }) => {
    const id = (await signerOf(ca)) ?? "";
    ca.store.records.set(`taint/${id}`, "junk");
    for (let i = 0; i < 4; i++) {
      await expect(Rotation.rotate(ca.mint, ca.now())).rejects.toThrow(AggregateError);
      ca.pass(3600);
    }
    expect(countOf(ca, "authority")).toBe(2);
  });

  test("lets its authority sign again once it was removed by hand", async ({ ca }) => {
    const id = (await signerOf(ca)) ?? "";
    ca.store.records.set(`taint/${id}`, "junk");
    ca.pass(refresh);
    expect(await signerOf(ca)).toBeUndefined();
    ca.store.records.delete(`taint/${id}`);
    ca.pass(refresh);
    expect(await signerOf(ca)).toBe(id);
  });

  test("of an unknown authority is reported, and stops no authority from signing", async ({
    ca,
  }) => {
    const signer = await signerOf(ca);
    ca.store.records.set(`taint/${"ab".repeat(20)}`, "junk");
    ca.pass(refresh);
    expect(await signerOf(ca)).toBe(signer);
    expect(await readiness(ca)).toEqual({
      ready: true,
      reasons: [expect.stringMatching(/^the taint .* does not open: form$/)],
    });
  });

  test("lets the successor that is published sign at once, as any taint does", async ({ ca }) => {
    const first = (await signerOf(ca)) ?? "";
    await publishSuccessor(ca);
    ca.store.records.set(`taint/${first}`, "junk");
    await expect(Rotation.rotate(ca.mint, ca.now())).rejects.toThrow(AggregateError);
    ca.pass(propagation);
    expect([undefined, first]).not.toContain(await signerOf(ca));
  });
});

/** A successor as the cron mints them: published for an hour, and signing in a month. */
async function publishSuccessor({ mint, now, store, pass }: RunningCa): Promise<StoredRecord> {
  const day = 86_400;
  const at = (seconds: number) => new Date(Math.floor(now().getTime() / 1000 + seconds) * 1000);
  const schedule = {
    publishedFrom: at(0),
    signsFrom: at(30 * day),
    signsUntil: at(300 * day),
    retiresAt: at(400 * day),
  };
  const record = await sealNewAuthority(mint.keks, schedule);
  await store.put(record);
  pass(3600);
  return record;
}

describe("tainted twice", () => {
  test("the root leaves when the later taint says so, if that is earlier", async ({ ca }) => {
    const { id } = await taint(ca, "with-last-leaf");
    ca.pass(2 * propagation);
    const fresh = await signerOf(ca);
    expect((await publishedBundle(ca))?.roots).toHaveLength(2);
    await taint(ca, "immediately", id);
    ca.pass(refresh);
    expect((await publishedBundle(ca))?.roots).toHaveLength(1);
    expect(await signerOf(ca)).toBe(fresh);
    expect([countOf(ca, "authority"), countOf(ca, "taint")]).toEqual([2, 2]);
    expect(await readiness(ca)).toEqual({ ready: true, reasons: [] });
  });

  test("a root that left does not come back when a milder taint follows", async ({ ca }) => {
    const { id } = await taint(ca, "immediately");
    ca.pass(2 * propagation);
    await signerOf(ca);
    await taint(ca, "with-last-leaf", id);
    ca.pass(refresh);
    expect((await publishedBundle(ca))?.roots).toHaveLength(1);
    expect([undefined, id]).not.toContain(await signerOf(ca));
  });

  test("of both authorities, a third one takes over", async ({ ca }) => {
    const one = await taint(ca, "immediately");
    ca.pass(propagation);
    const two = await taint(ca, "immediately");
    expect(two.id).not.toBe(one.id);
    ca.pass(refresh);
    expect(await signerOf(ca)).toBeUndefined();
    ca.pass(propagation - refresh);
    expect([undefined, one.id, two.id]).not.toContain(await signerOf(ca));
    expect((await publishedBundle(ca))?.roots).toHaveLength(1);
  });
});

describe("runs of the cron that see different records", () => {
  test("together mint two after a taint, both of which are published before either signs", async ({
    ca,
  }) => {
    await Mint.recordTaint(ca.mint, await decideTaint(ca, "immediately"));
    await Promise.all([Rotation.rotate(ca.mint, ca.now()), Rotation.rotate(ca.mint, ca.now())]);
    expect(countOf(ca, "authority")).toBe(3);
    ca.pass(propagation);
    const fresh = await signerOf(ca);
    expect((await publishedBundle(ca))?.roots).toHaveLength(2);
    for (let i = 0; i < 3; i++) {
      await Rotation.rotate(ca.mint, ca.now());
      ca.pass(refresh);
      expect(await signerOf(ca)).toBe(fresh);
    }
    expect(countOf(ca, "authority")).toBe(3);
  });

  test("do no harm when one has yet to see the taint", async ({ ca }) => {
    const stale = await ca.store.load();
    const { id } = await taint(ca, "immediately");
    const before = new Map(ca.store.records);
    await Rotation.rotate(
      { ...ca.mint, store: { ...ca.store, load: async () => stale } },
      ca.now(),
    );
    expect(ca.store.records).toEqual(before);
    ca.pass(propagation);
    expect([undefined, id]).not.toContain(await signerOf(ca));
  });

  test("do no harm when one sees a taint without its authority", async ({ ca }) => {
    const { id } = await taint(ca, "immediately");
    const before = new Map(ca.store.records);
    const load = async () =>
      (await ca.store.load()).filter((record) => record.kind !== "authority" || record.id !== id);
    await Rotation.rotate({ ...ca.mint, store: { ...ca.store, load } }, ca.now());
    expect(ca.store.records).toEqual(before);
  });

  test.each([0, 86_400])(
    "found no authority when one of them reads only a taint, %i seconds after the day's founding",
    async (seconds) => {
      const ca = await startSigningCa({}, { hasNoNamesake: true });
      await taint(ca, "immediately");
      const before = new Map(ca.store.records);
      const load = async () => (await ca.store.load()).filter(({ kind }) => kind === "taint");
      ca.pass(seconds);
      const run = Rotation.rotate({ ...ca.mint, store: { ...ca.store, load } }, ca.now());
      await (seconds > 0 ? expect(run).rejects.toThrow() : run.catch(() => {}));
      expect(ca.store.records).toEqual(before);
    },
  );
});

test("a taint stops its authority now, though the operator's clock is an hour ahead", async ({
  ca,
}) => {
  const store = await openStore(ca.mint);
  const id = store.authorities[0]?.id ?? "";
  const ahead = new Date(ca.now().getTime() + 3_600_000);
  const said = createTaint(store, id, "with-last-leaf", ca.mint.phaseLengths, ahead);
  await Mint.recordTaint(ca.mint, said);
  ca.pass(propagation);
  expect(await signerOf(ca)).toBeUndefined();
});

describe("under a new KEK", () => {
  test("a taint is sealed again by the cron, once, and keeps its meaning", async ({ ca }) => {
    const { id } = await taint(ca, "with-last-leaf");
    const before = await openStore(ca.mint);
    const newest = await newKek("k2");
    const mint = { ...ca.mint, keks: [newest, ...ca.mint.keks] as const };
    await Rotation.rotate(mint, ca.now());
    const after = new Map(ca.store.records);
    const alone = await openStore({ ...ca.mint, keks: [newest] });
    expect(alone.refusals).toEqual([]);
    expect(alone.taints).toEqual(before.taints);
    expect(alone.taints.map((each) => each.id)).toEqual([id]);
    await Rotation.rotate(mint, ca.now());
    expect(ca.store.records).toEqual(after);
    const resealed = ca.log.operations.filter(({ event }) => event === "record-resealed");
    expect(resealed.filter(({ record }) => record === "taint")).toHaveLength(1);
  });

  test("a run that read the store before an operator tainted again does not undo that", async ({
    ca,
  }) => {
    const { id } = await taint(ca, "with-last-leaf");
    const stale = await ca.store.load();
    await taint(ca, "immediately", id);
    const mint = { ...ca.mint, keks: [await newKek("k2"), ...ca.mint.keks] as const };
    await Rotation.rotate({ ...mint, store: { ...ca.store, load: async () => stale } }, ca.now());
    const { taints } = await openStore(mint);
    expect(taints.map(({ retiresAt }) => retiresAt <= ca.now())).toContain(true);
  });
});
