import type { X509Certificate } from "node:crypto";
import { expect, onTestFinished, test } from "vitest";
import type { Revocation } from "../../../src/agent/trust/revocation.ts";
import { addSeconds } from "../../../src/pki/x509/validity.ts";
import { createRevocation, isSettled } from "../../testkit/agent/revocation.ts";
import {
  type CrlAuthority,
  type CrlDepartures,
  createCrlAuthority,
  crlTime,
  parsedCrl,
} from "../../testkit/pki/crl-authority.ts";

const [a, b] = await Promise.all([createCrlAuthority(), createCrlAuthority()]);
const crlOf = async (authority: CrlAuthority, departures?: CrlDepartures) =>
  parsedCrl(await authority.crl(departures));
const [crlOfA, crlOfB] = await Promise.all([crlOf(a), crlOf(b)]);

/** Follows the CRLs of a mesh whose roots and clock the test sets. */
function follow() {
  let sequence = 0;
  let now = crlTime;
  const { trust, log, identities, revocation, refused } = createRevocation(() => now);
  const ending = new AbortController();
  onTestFinished(() => ending.abort());
  void revocation.run(ending.signal);
  let asked = 0;
  revocation.awaiting.add(() => void asked++);
  return {
    revocation,
    trust,
    log,
    identities,
    refused,
    asked: () => asked,
    roots: (...authorities: readonly CrlAuthority[]) => {
      const roots: readonly X509Certificate[] = authorities.map(({ certificate }) => certificate);
      trust.updateFromBundle({ roots, sequence: ++sequence, refreshSeconds: 300, jwtKeys: [] });
    },
    /** Has it look again, after so many seconds. */
    pass: (seconds: number) => {
      now = addSeconds(now, seconds);
      identities.changes.notify();
    },
  };
}

/** The same once the root of `a` and its CRL are there. */
function followA() {
  const followed = follow();
  followed.roots(a);
  followed.revocation.take([crlOfA]);
  return followed;
}

test("CRLs stay in force, and are updated, while a new root has no CRL yet, and its CRL is fetched at once", async () => {
  const { revocation, trust, roots, asked, log } = followA();
  expect(revocation.crls).toEqual([crlOfA]);
  roots(a, b);
  expect(revocation).toMatchObject({ crls: [crlOfA], isAwaiting: true, fault: undefined });
  expect(trust.current).toHaveLength(2);
  expect(trust.served).toEqual([a.certificate]);
  expect(asked()).toBe(1);
  const next = await crlOf(a, { number: 2, revoked: ["07"] });
  revocation.take([next]);
  expect(revocation.crls).toEqual([next]);
  revocation.take([next, crlOfB]);
  expect(trust.served).toHaveLength(2);
  expect(revocation).toMatchObject({ crls: [next, crlOfB], isAwaiting: false });
  expect(log.operations.map(({ event }) => event)).toEqual(["revocation-lists-used"]);
});

test("CRLs stay in force for ten seconds without the CRL of a new root, and no longer", () => {
  const { revocation, roots, pass, asked, log } = followA();
  roots(a, b);
  pass(9);
  expect(revocation.crls).toEqual([crlOfA]);
  pass(1);
  expect(revocation).toMatchObject({ crls: [], isAwaiting: false });
  const { subject } = b.certificate;
  expect(revocation.fault).toContain(`not refused: the root ${subject} has no current CRL`);
  pass(1);
  expect(revocation.crls).toEqual([]);
  expect(asked()).toBe(1);
  expect(log.operations.at(-1)).toMatchObject({ event: "revocation-lists-unused" });
});

test("each new root has ten seconds of its own, however long ago another waited, and two wait together", async () => {
  const { revocation, trust, roots, pass } = followA();
  const [c, d] = await Promise.all([createCrlAuthority(), createCrlAuthority()]);
  roots(a, b);
  pass(5);
  revocation.take([crlOfA, crlOfB]);
  pass(100);
  roots(a, b, c, d);
  expect(revocation).toMatchObject({ crls: [crlOfA, crlOfB], isAwaiting: true });
  pass(9);
  expect(trust.served).toHaveLength(2);
  const crlOfC = await crlOf(c);
  revocation.take([crlOfA, crlOfB, crlOfC]);
  expect(trust.served).toHaveLength(3);
  revocation.take([crlOfA, crlOfB, crlOfC, await crlOf(d)]);
  expect(trust.served).toHaveLength(4);
});

test("another CRL of the same number and time says what it says, and an older one nothing", async () => {
  const { revocation, log, refused } = followA();
  const { pem } = revocation;
  let changes = 0;
  revocation.changes.add(() => void changes++);
  const other = await crlOf(a, { revoked: ["07"] });
  revocation.take([other]);
  expect(revocation.crls).toEqual([other]);
  expect([changes, revocation.pem === pem]).toEqual([1, false]);
  for (const departures of [
    { thisUpdate: addSeconds(crlTime, -7200) },
    { number: 0, thisUpdate: addSeconds(crlTime, -60) },
  ]) {
    expect(revocation.take([await crlOf(a, departures)])).toBe(false);
    expect(revocation.crls).toEqual([other]);
  }
  expect(log.operations.filter(({ level }) => level === "error")).toHaveLength(2);
  expect(refused()).toBe(2);
});

test("a CRL that has ended says nothing of the next, and is published no longer", async () => {
  const { revocation, roots, pass } = follow();
  roots(a);
  revocation.take([await crlOf(a, { number: 9 })]);
  pass(2 * 3600);
  revocation.take([]);
  expect(revocation.isPublished).toBe(false);
  const now = addSeconds(crlTime, 2 * 3600);
  const begunAnew = await crlOf(a, { thisUpdate: now, nextUpdate: addSeconds(now, 3600) });
  revocation.take([begunAnew]);
  expect(revocation.crls).toEqual([begunAnew]);
});

test("CRLs are withdrawn at once when the CRL of a known root expires, which is told each time", async () => {
  const { revocation, roots, pass, log } = follow();
  roots(a, b);
  const served: number[] = [];
  revocation.changes.add(() => void served.push(revocation.crls.length));
  revocation.take([crlOfA, await crlOf(b, { nextUpdate: addSeconds(crlTime, 60) })]);
  expect(revocation.crls).toHaveLength(2);
  pass(55);
  expect(revocation).toMatchObject({ crls: [], isAwaiting: false });
  const now = addSeconds(crlTime, 55);
  revocation.take([crlOfA, await crlOf(b, { thisUpdate: now, nextUpdate: addSeconds(now, 60) })]);
  pass(55);
  const uses = log.operations.map(({ event }) => event).filter((each) => each.includes("used"));
  const [used, unused] = ["revocation-lists-used", "revocation-lists-unused"];
  expect(uses).toEqual([used, unused, used, unused]);
  expect(served).toEqual([2, 0, 2, 0]);
});

test("CRLs are kept for a root that becomes known later, which is no error", () => {
  const { revocation, trust, roots, asked, log } = follow();
  roots(a);
  expect(revocation.take([crlOfA, crlOfB])).toBe(true);
  expect(revocation.take([crlOfA, crlOfB])).toBe(true);
  roots(a, b);
  expect(revocation).toMatchObject({ crls: [crlOfA, crlOfB], isAwaiting: false });
  expect(trust.served).toHaveLength(2);
  expect(asked()).toBe(0);
  expect(log.operations).toMatchObject([
    { event: "revocation-lists-refused", level: "info", detail: "issuer-unknown" },
    { event: "revocation-lists-used", level: "info", lists: 1 },
  ]);
});

test("a taint with immediate effect is no fault for the moment until the CRL of the only root is there, which verifiers get at once", async () => {
  const { revocation, trust, roots, asked, log } = followA();
  roots(b);
  expect(revocation).toMatchObject({ crls: [], isAwaiting: true });
  expect(trust.served).toEqual([b.certificate]);
  expect(asked()).toBe(1);
  revocation.take([crlOfB]);
  expect(revocation).toMatchObject({ crls: [crlOfB], isAwaiting: false });
  expect(log.operations.filter(({ level }) => level === "error")).toEqual([]);
});

test("CRLs that do not come after a taint with immediate effect are a fault after ten seconds", () => {
  const { revocation, roots, pass, log } = followA();
  roots(b);
  pass(9);
  expect(log.operations.at(-1)).toMatchObject({ event: "revocation-lists-used" });
  pass(1);
  expect(log.operations.at(-1)).toMatchObject({ event: "revocation-lists-unused" });
  expect(revocation.isAwaiting).toBe(false);
});

test("CRLs may be absent only while none is in force: a CA that stops publishing them is at fault", () => {
  const { revocation, roots, pass } = follow();
  roots(a);
  expect(revocation.mayBeAbsent()).toBe(true);
  expect(revocation.isAbsent).toBe(true);
  revocation.take([crlOfA]);
  expect(revocation.mayBeAbsent()).toBe(false);
  expect(revocation).toMatchObject({ isAbsent: false, crls: [crlOfA] });
  pass(366 * 86_400);
  expect(revocation.mayBeAbsent()).toBe(true);
});

test("who writes CRLs hears that the CA publishes none any more, and so removes the file of an earlier run", () => {
  const { revocation, roots } = follow();
  roots(a);
  const heard: boolean[] = [];
  revocation.changes.add(() => heard.push(revocation.isAbsent));
  revocation.mayBeAbsent();
  revocation.mayBeAbsent();
  expect(heard).toEqual([true]);
});

test.each<[string, (revocation: Revocation) => void]>([
  ["have come", (revocation) => revocation.take([crlOfA])],
  ["are said to be none", (revocation) => revocation.mayBeAbsent()],
])("secrets wait no longer for CRLs that %s", async (_, answer) => {
  const { revocation, roots } = follow();
  roots(a);
  expect(await isSettled(revocation)).toBe(false);
  answer(revocation);
  expect(await isSettled(revocation)).toBe(true);
});

test("CRLs of nobody are logged once, and again after they had gone", () => {
  const { revocation, roots, log } = follow();
  roots(a);
  const said = () =>
    log.operations.filter(({ event }) => event === "revocation-lists-refused").length;
  for (const times of [1, 1]) {
    revocation.take([crlOfA, crlOfB]);
    expect(said()).toBe(times);
  }
  revocation.take([crlOfA]);
  revocation.take([crlOfA, crlOfB]);
  expect(said()).toBe(2);
});

test("the intermediates of every identity count, whichever has one", async () => {
  const [intermediate, stranger] = await Promise.all([
    createCrlAuthority("O=below", { issuer: a }),
    createCrlAuthority("O=below"),
  ]);
  const chainOf = (...chain: readonly X509Certificate[]) => ({
    svid: { chain: [a.certificate, ...chain] as const },
    renewIf: () => {},
  });
  const [plain, below] = [chainOf(), chainOf(intermediate.certificate)];
  const own = await crlOf(intermediate);
  const forged = await crlOf(intermediate, { signer: stranger });
  for (const all of [
    [plain, below],
    [below, plain],
  ]) {
    const { revocation, roots, identities } = follow();
    Object.assign(identities, { all: () => all });
    roots(a);
    expect(revocation.take([crlOfA, own])).toBe(true);
    expect(revocation.crls).toHaveLength(2);
    expect(revocation.take([crlOfA, forged])).toBe(false);
  }
});

test("each identity whose certificate is revoked gets another, and no other does", async () => {
  const renewed: string[] = [];
  const holding = ({ certificate }: CrlAuthority, name: string) => ({
    svid: { chain: [certificate] as const },
    renewIf: (isRefused: (svid: { chain: readonly [X509Certificate] }) => boolean) => {
      if (isRefused({ chain: [certificate] })) renewed.push(name);
    },
  });
  const [first, second, third] = await Promise.all([1, 2, 3].map(() => createCrlAuthority()));
  if (!first || !second || !third) throw new Error("unreachable");
  const { revocation, roots, identities } = follow();
  const all = [holding(first, "first"), holding(second, "second"), holding(third, "third")];
  Object.assign(identities, { all: () => all });
  roots(a);
  const revoked = [second, third].map(({ certificate }) => certificate.serialNumber.toLowerCase());
  revocation.take([await crlOf(a, { revoked })]);
  expect(renewed).toEqual(["second", "third"]);
  const named = [first, third].map(({ certificate }) => revocation.names(certificate));
  expect(named).toEqual([false, true]);
});
