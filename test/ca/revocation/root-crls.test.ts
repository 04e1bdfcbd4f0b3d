import { expect, test } from "vitest";
import type { AuthorityView } from "../../../src/ca/authority-view.ts";
import { keepRootCrls, rootCrlLengths } from "../../../src/ca/revocation/keep-root-crls.ts";
import { rootCrlsIn } from "../../../src/ca/revocation/published-crls.ts";
import { Rotation } from "../../../src/ca/rotation/rotate.ts";
import { AuthorityRecord } from "../../../src/custody/authority-record.ts";
import { Statement } from "../../../src/custody/statement.ts";
import { Schedule } from "../../../src/pki/authority/schedule.ts";
import type { OpenAuthority } from "../../../src/pki/authority/signing-authority.ts";
import { webCryptoProvider } from "../../../src/pki/web-crypto.ts";
import {
  createMemoryMint,
  istioPhaseLengths,
  type MemoryMint,
} from "../../testkit/ca/memory-mint.ts";
import { clusterLocal, createKekRing } from "../../testkit/ca/sealed-authorities.ts";
import { openStore } from "../../testkit/ca/tainted-ca.ts";
import { createCrlAuthority, parsedCrl } from "../../testkit/pki/crl-authority.ts";
import { readCrl } from "../../testkit/pki/crls.ts";

const now = new Date("2026-11-21T12:00:00Z");
const [a, namesake] = await Promise.all([createCrlAuthority(), createCrlAuthority()]);

test("of several CRLs of a root that are stored, the one with the highest number counts, in any order", async () => {
  const crls = await Promise.all(
    [1, 3, 2].map(async (number) => parsedCrl(await a.crl({ number }))),
  );
  const others = [parsedCrl(await namesake.crl({ number: 9 }))];
  const roots = [new Uint8Array(a.certificate.raw)];
  for (const crl of [
    [...crls, ...others],
    [...others, ...crls.toReversed()],
  ]) {
    const view = { trustBundle: { roots, pem: "" }, store: { statements: { crl } } };
    const found = rootCrlsIn(view as unknown as AuthorityView);
    expect([...found.keys()].map(({ number }) => number)).toEqual([3n]);
  }
});

/** A mint whose authority stands for a root in a key service. */
async function withRoot(): Promise<{ readonly mint: MemoryMint; readonly root: OpenAuthority }> {
  const keks = await createKekRing();
  const mint = createMemoryMint(keks);
  await Rotation.rotate(mint, now);
  const [record] = await mint.store.load();
  if (!record) throw new Error("no authority");
  const opening = { trustDomain: clusterLocal, keks };
  return { mint, root: await AuthorityRecord.open(record, opening, webCryptoProvider) };
}

const silent = (root: OpenAuthority): OpenAuthority => ({
  ...root,
  signingKey: { ...root.signingKey, sign: () => Promise.reject(new Error("its key is away")) },
});

test("a root whose key is away leaves those beside it their CRLs, whichever comes first", async () => {
  const [one, two] = await Promise.all([withRoot(), withRoot()]);
  const kept = (root: OpenAuthority) => ({ signer: root, keep: keepRootCrls });
  for (const isFirstAway of [true, false]) {
    const [first, second] = isFirstAway
      ? [silent(one.root), two.root]
      : [one.root, silent(two.root)];
    const keeper = { ...one.mint, crlRoot: kept(first) };
    const mints = [keeper, { ...two.mint, crlRoot: kept(second) }];
    await expect(keepRootCrls(mints, now)).rejects.toThrow("a root in a key service signed no CRL");
    const { crl } = (await openStore(one.mint)).statements;
    expect(crl).toHaveLength(1);
    for (const key of [...one.mint.store.records.keys()])
      if (key.startsWith("crl/")) one.mint.store.records.delete(key);
  }
});

test("a root revokes what it has signed in any of the stores", async () => {
  const [one, two] = await Promise.all([withRoot(), withRoot()]);
  const { id } = two.root.authority;
  const past = new Date(now.getTime() - 60_000);
  const content = { id, taintedAt: past, retiresAt: past };
  await two.mint.store.put(await Statement.seal("taint", content, two.mint));
  const keeper = { ...one.mint, crlRoot: { signer: two.root, keep: keepRootCrls } };
  await keepRootCrls([keeper, two.mint], now);
  const [crl] = (await openStore(one.mint)).statements.crl;
  expect(readCrl(crl?.der ?? new Uint8Array()).entries).toHaveLength(1);
});

test("a CRL of a root goes once it has ended, and the one in force stays", async () => {
  const { mint, root } = await withRoot();
  const mints = [{ ...mint, crlRoot: { signer: root, keep: keepRootCrls } }];
  const count = () => [...mint.store.records.keys()].filter((key) => key.startsWith("crl/")).length;
  for (let months = 0; months < 36; months++) {
    const at = new Date(now.getTime() + months * 30 * 86_400_000);
    await keepRootCrls(mints, at);
    expect(count()).toBeGreaterThanOrEqual(1);
  }
  expect(count()).toBeLessThan(6);
  const ends = async () =>
    (await openStore(mint)).statements.crl.map(({ nextUpdate = now }) => nextUpdate.getTime());
  const first = Math.min(...(await ends()));
  await keepRootCrls(mints, new Date(first - 1000));
  expect(await ends()).toContain(first);
  await keepRootCrls(mints, new Date(first));
  expect(await ends()).not.toContain(first);
});

test.each([30, 360, 3600])(
  "a CRL of a root lasts for eight months, and longer than an intermediate that signs for %i days",
  (days) => {
    const phaseLengths = { ...istioPhaseLengths, signingSeconds: days * 86_400 };
    const life = phaseLengths.signingSeconds + 2 * Schedule.leadSeconds(phaseLengths);
    const { lifetimeSeconds } = rootCrlLengths(phaseLengths);
    expect(lifetimeSeconds).toBeGreaterThanOrEqual(Math.max(life, 240 * 86_400));
  },
);

test("a store that has lost its authorities gets no CRL of a root", async () => {
  const { mint, root } = await withRoot();
  mint.store.records.clear();
  await keepRootCrls([{ ...mint, crlRoot: { signer: root, keep: keepRootCrls } }], now);
  expect(mint.store.records.size).toBe(0);
});
