import { describe, expect } from "vitest";
import { Mint } from "../../../src/ca/mint.ts";
import { Rotation } from "../../../src/ca/rotation/rotate.ts";
import { addSeconds } from "../../../src/pki/x509/validity.ts";
import { caTest as test } from "../../testkit/ca/ca-test.ts";
import type { RunningCa } from "../../testkit/ca/running-ca.ts";
import {
  countOf,
  decideTaint,
  issueLeaf,
  openStore,
  passUntil,
  propagation,
  publishedBundle,
  readiness,
  refresh,
  signerOf,
  startSigningCa,
  startWithSuccessor,
  taint,
  taintKeyOf,
} from "../../testkit/ca/tainted-ca.ts";

/** The bundle is counted. */
const ownRoots = { hasNoNamesake: true };

const nobody = "no authority signs at this time";
describe("the authority that signs, tainted", () => {
  test("immediately: signs nothing once isolates look, is trusted no longer, and is replaced in one interval", async ({
    ca,
  }) => {
    const old = await signerOf(ca);
    const before = await publishedBundle(ca);
    await taint(ca, "immediately");
    ca.pass(refresh);
    expect(await signerOf(ca)).toBeUndefined();
    expect(await publishedBundle(ca)).toBeUndefined();
    expect((await ca.app.request("/bundle.pem")).status).toBe(503);
    expect(await readiness(ca)).toEqual({ ready: false, reasons: [nobody] });
    await expect(issueLeaf(ca)).rejects.toMatchObject({
      refusal: { reason: "no-signing-authority" },
    });
    ca.pass(propagation - refresh - 1);
    expect(await signerOf(ca)).toBeUndefined();
    ca.pass(1);
    const fresh = await signerOf(ca);
    expect([fresh === undefined, fresh === old]).toEqual([false, false]);
    expect(await readiness(ca)).toEqual({ ready: true, reasons: [] });
    const after = await publishedBundle(ca);
    expect(after?.roots).toHaveLength(1);
    expect(after?.roots).not.toEqual(before?.roots);
    expect(after?.sequence).toBeGreaterThan(before?.sequence ?? Number.NaN);
    const { leaf, roots } = await issueLeaf(ca);
    expect(roots.some((root) => leaf.verify(root.publicKey))).toBe(true);
  });

  test("with the last leaf: its leaves verify until they expire, and then its root leaves", async () => {
    const ca = await startSigningCa({ CRL: "on" }, ownRoots);
    const lists = async () => (await (await ca.app.request("/crl.pem")).text()).split("BEGIN");
    const old = await signerOf(ca);
    const { leaf } = await issueLeaf(ca, ca.mint.phaseLengths.longestLeafSeconds);
    const before = await publishedBundle(ca);
    const { retiresAt } = await taint(ca, "with-last-leaf");
    const exposed = `${old} is tainted, and its root trusted until ${retiresAt.toISOString()}`;
    expect(retiresAt.getTime()).toBeGreaterThan(Date.parse(leaf.validTo));
    ca.pass(refresh);
    expect(await readiness(ca)).toEqual({ ready: false, reasons: [nobody, exposed] });
    expect(await publishedBundle(ca)).toEqual(before);
    ca.pass(propagation - refresh);
    expect(await readiness(ca)).toEqual({ ready: true, reasons: [exposed] });
    const both = await publishedBundle(ca);
    expect(both?.roots.slice(0, 1)).toEqual(before?.roots);
    expect(both?.roots).toHaveLength(2);
    expect(await lists()).toHaveLength(1 + 2);
    passUntil(ca, new Date(leaf.validTo));
    const { roots } = await issueLeaf(ca);
    expect(roots.filter((root) => leaf.verify(root.publicKey))).toHaveLength(1);
    passUntil(ca, addSeconds(retiresAt, -1));
    expect(await publishedBundle(ca)).toEqual(both);
    passUntil(ca, retiresAt);
    const after = await publishedBundle(ca);
    expect(after?.roots).toEqual(both?.roots.slice(1));
    const sequences = [before, both, after].map((bundle) => bundle?.sequence ?? Number.NaN);
    expect(sequences[0]).toBeLessThan(sequences[1] ?? 0);
    expect(sequences[1]).toBeLessThan(sequences[2] ?? 0);
    expect(await readiness(ca)).toEqual({ ready: true, reasons: [] });
  });

  test.each(["immediately", "with-last-leaf"] as const)(
    "%s, while a successor is published: that signs at once, and none is minted",
    async (departure) => {
      const { ca, first, successor } = await startWithSuccessor(ownRoots);
      expect(await signerOf(ca)).toBe(first);
      await taint(ca, departure);
      expect(countOf(ca, "authority")).toBe(2);
      ca.pass(refresh);
      expect(await signerOf(ca)).toBe(successor.id);
      expect((await publishedBundle(ca))?.roots).toHaveLength(departure === "immediately" ? 1 : 2);
      const { ready, reasons } = await readiness(ca);
      expect([ready, reasons.length]).toEqual([true, departure === "immediately" ? 0 : 1]);
    },
  );

  test("is logged, with its id, the time of the taint, and the end of its trust", async ({
    ca,
  }) => {
    const { id, taintedAt, retiresAt } = await taint(ca, "with-last-leaf");
    expect(ca.log.operations).toContainEqual({
      event: "authority-tainted",
      level: "warning",
      detail: expect.any(String),
      authority: id,
      taintedAt: taintedAt.toISOString(),
      retiresAt: retiresAt.toISOString(),
    });
    const events = ca.log.operations.map(({ event, level }) => `${level} ${event}`);
    expect(events).toContain("error emergency-rotation");
    expect(events).toContain("warning authority-exposed");
  });

  test("does not sign again when its record comes back from a backup", async ({ ca }) => {
    const [backup] = (await ca.store.load()).filter(({ kind }) => kind === "authority");
    const { id } = await taint(ca, "immediately");
    await ca.store.delete({ kind: "authority", id });
    ca.pass(propagation);
    const fresh = await signerOf(ca);
    if (backup) await ca.store.put(backup);
    ca.pass(refresh);
    expect(await signerOf(ca)).toBe(fresh);
    expect((await publishedBundle(ca))?.roots).toHaveLength(1);
  });

  test("signs for no longer than an interval in an isolate whose store is down", async ({ ca }) => {
    const old = await signerOf(ca);
    await taint(ca, "immediately");
    ca.store.outage = new Error("down");
    ca.pass(propagation);
    expect(await signerOf(ca)).toBe(old);
    ca.pass(1);
    await expect(signerOf(ca)).rejects.toMatchObject({
      refusal: { reason: "store-unreachable" },
    });
    ca.store.outage = undefined;
    ca.pass(2);
    expect([undefined, old]).not.toContain(await signerOf(ca));
  });
});

describe("a taint of an authority that does not sign", () => {
  test.each(["immediately", "with-last-leaf"] as const)(
    "%s: of a successor takes its root away at once, and another is minted",
    async (departure) => {
      const { ca, first, successor } = await startWithSuccessor(ownRoots);
      const { retiresAt } = await taint(ca, departure, successor.id);
      expect(retiresAt.getTime()).toBeLessThanOrEqual(ca.now().getTime());
      ca.pass(refresh);
      expect(await signerOf(ca)).toBe(first);
      expect((await publishedBundle(ca))?.roots).toHaveLength(1);
      expect(countOf(ca, "authority")).toBe(3);
      ca.pass(propagation);
      expect((await publishedBundle(ca))?.roots).toHaveLength(2);
      const { authorities } = await openStore(ca.mint);
      const third = authorities.find(({ id }) => id !== first && id !== successor.id);
      passUntil(ca, third?.schedule.signsFrom ?? ca.now());
      expect(await signerOf(ca)).toBe(third?.id);
    },
  );

  test("of a retired authority changes nothing but the store", async () => {
    const { ca, first } = await startWithSuccessor(ownRoots);
    const { authorities } = await openStore(ca.mint);
    const retired = authorities.find(({ id }) => id === first)?.schedule.retiresAt ?? ca.now();
    passUntil(ca, addSeconds(retired, 60));
    const before = await appearanceOf(ca);
    await Mint.recordTaint(ca.mint, await decideTaint(ca, "immediately", first));
    ca.pass(refresh);
    expect(await appearanceOf(ca)).toEqual(before);
  });

  test("of an unknown authority changes nothing, as long as it stays unknown", async ({ ca }) => {
    const before = await appearanceOf(ca);
    await Mint.recordTaint(ca.mint, {
      id: "ab".repeat(20),
      taintedAt: ca.now(),
      retiresAt: ca.now(),
    });
    await Rotation.rotate(ca.mint, ca.now());
    ca.pass(refresh);
    expect(await appearanceOf(ca)).toEqual(before);
    expect([countOf(ca, "authority"), countOf(ca, "taint")]).toEqual([1, 1]);
  });

  test("outlives its authority: no taint is ever deleted", async ({ ca }) => {
    const { id } = await taint(ca, "immediately");
    const { signingSeconds } = ca.mint.phaseLengths;
    for (let i = 0; i < 12; i++) {
      ca.pass(signingSeconds / 4);
      await Rotation.rotate(ca.mint, ca.now());
    }
    expect(ca.store.records.has(`authority/${id}`)).toBe(false);
    expect(ca.store.records.has(taintKeyOf(ca, id))).toBe(true);
    expect((await readiness(ca)).ready).toBe(true);
  });
});

/** All that callers and verifiers see, without the sequence, which any taint may move. */
async function appearanceOf(ca: RunningCa) {
  return [await signerOf(ca), (await publishedBundle(ca))?.roots, await readiness(ca)];
}
