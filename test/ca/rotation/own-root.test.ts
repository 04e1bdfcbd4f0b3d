import { X509Certificate } from "node:crypto";
import { expect, test } from "vitest";
import { Mint } from "../../../src/ca/mint.ts";
import { trustRoot } from "../../../src/ca/rotation/adopt.ts";
import { NewIntermediate } from "../../../src/ca/rotation/install-intermediate.ts";
import { RequestedIntermediate } from "../../../src/ca/rotation/intermediate-request.ts";
import { NextStep } from "../../../src/ca/rotation/next-step.ts";
import { Rotation } from "../../../src/ca/rotation/rotate.ts";
import { readCertificates } from "../../../src/cli/verbs/import/pem-files.ts";
import { verifyImported } from "../../../src/cli/verbs/import/verify.ts";
import type { StoredRecord } from "../../../src/custody/authority-store.ts";
import { createRootTaint } from "../../../src/pki/authority/new-taint.ts";
import { Pem } from "../../../src/pki/encoding/pem.ts";
import { addSeconds, wholeSeconds } from "../../../src/pki/x509/validity.ts";
import { type RunningCa, startCa } from "../../testkit/ca/running-ca.ts";
import {
  issueLeaf,
  openStore,
  publishedBundle,
  readiness,
  signerOf,
  viewOf,
} from "../../testkit/ca/tainted-ca.ts";
import { clusterLocal } from "../../testkit/pki/certificates.ts";
import { signIntermediate } from "../../testkit/pki/company-ca.ts";
import { createCa, type TestCa } from "../../testkit/pki/plugged-in.ts";

const day = 86_400;
const [leaf, propagation] = [10 * day, 600];
const root = await createCa("O=company,CN=root");

/** Has a CA trust the root of another one, for longer than the leaves of the old root live. @returns The other CA. */
async function trustAnother(ca: RunningCa): Promise<TestCa> {
  await renew(ca);
  const next = await createCa("O=company,CN=next");
  const [{ der } = { der: new Uint8Array() }] = readCertificates({ name: "n", text: next.pem });
  await trustRoot(ca.mint, der, ca.now());
  ca.pass(40 * day);
  return next;
}

const start = (values: Readonly<Record<string, unknown>> = {}) =>
  startCa({
    AUTHORITY_ROOT: "offline",
    MAX_WORKLOAD_CERT_TTL: `${leaf}s`,
    PROPAGATION_INTERVAL: `${propagation}s`,
    ...values,
  });

/** Requests an intermediate, has it signed and installs it, as the verbs do. @returns Its id. */
async function renew(ca: RunningCa, issuer: TestCa = root): Promise<string> {
  const { id, intermediate } = await certified(ca, issuer);
  await NewIntermediate.install(ca.mint, intermediate, ca.now());
  return id;
}

async function certified({ mint, now }: RunningCa, issuer: TestCa) {
  const { id, csr } = await RequestedIntermediate.request(mint, now());
  const notAfter = addSeconds(now(), 365 * day);
  const text = await signIntermediate(issuer, Pem.format("CERTIFICATE REQUEST", csr), { notAfter });
  const [authority] = readCertificates({ name: "chain.pem", text });
  const anchors = readCertificates({ name: "root.pem", text: issuer.pem });
  if (!authority) throw new Error("no certificate");
  const verified = await verifyImported({ authority, others: [], anchors }, clusterLocal, now());
  const open = (await openStore(mint)).requests.find((each) => each.id === id);
  if (!open) throw new Error("no open request");
  const extractablePrivateKey = await RequestedIntermediate.keyOf(mint, open);
  return { id, intermediate: { verified, extractablePrivateKey, otherRoots: [] } };
}

test("an intermediate signs leaves that verify under the company's root", async () => {
  const ca = await start();
  // Another request is open as well.
  await RequestedIntermediate.request(ca.mint, ca.now());
  const id = await renew(ca);
  ca.pass(2 * propagation);
  expect(await signerOf(ca)).toBe(id);
  const { leaf: certificate, chain, roots } = await issueLeaf(ca);
  expect(chain).toHaveLength(3);
  expect(roots.map(({ subject }) => subject)).toEqual(["O=company\nCN=root"]);
  expect(certificate.issuer).toContain("cluster.local intermediate");
  expect(certificate.verify(new X509Certificate(chain[1] ?? "").publicKey)).toBe(true);
});

test("the cron founds nothing, mints nothing, and drops what has its answer", async () => {
  const ca = await start();
  await expect(ca.rotate()).rejects.toThrow("AUTHORITY_ROOT is offline");
  const renewed = await renew(ca);
  ca.pass(2 * propagation);
  expect([...ca.store.records.keys()].filter((key) => key.startsWith("request"))).toHaveLength(1);
  await ca.rotate();
  expect([...ca.store.records.keys()].filter((key) => key.startsWith("request"))).toHaveLength(0);
  const { id } = await RequestedIntermediate.request(ca.mint, ca.now());
  await RequestedIntermediate.withdraw(ca.mint, id);
  expect(ca.log.operations.map(({ event, authority }) => [event, authority])).toEqual([
    ["rotation-fault", undefined],
    ["intermediate-requested", renewed],
    ["intermediate-installed", renewed],
    ["request-dropped", renewed],
    ["intermediate-requested", id],
    ["request-withdrawn", id],
  ]);
  ca.pass(364 * day);
  await ca.rotate();
  expect((await openStore(ca.mint)).authorities).toHaveLength(1);
});

test("an open request is sealed anew with the newest KEK", async () => {
  const ca = await start();
  await renew(ca);
  const { id } = await RequestedIntermediate.request(ca.mint, ca.now());
  const [first] = ca.mint.keks;
  const newest = { ...first, id: "k2" };
  // A store such as KV, where each put replaces.
  const store = { ...ca.store, put: (record: StoredRecord) => ca.store.put(record) };
  await Rotation.rotate({ ...ca.mint, store, keks: [newest, first] }, ca.now());
  const requests = [...ca.store.records.keys()].filter((key) => key.startsWith("request/"));
  expect(requests).toEqual([`request/${id}`]);
  const record = [...ca.store.records].find(([key]) => key.includes(id))?.[1];
  expect(JSON.stringify(record)).toContain("k2");
});

test("readiness and the cron's log say when the next intermediate is due, and that it is late", async () => {
  const ca = await start();
  await renew(ca);
  ca.pass(2 * propagation);
  expect(await readiness(ca)).toEqual({ ready: true, reasons: [] });
  const { due } = NextStep.of(await openStore(ca.mint)) ?? {};
  expect((await viewOf(ca)).validUntil).toEqual(due);
  ca.pass(200 * day);
  expect((await readiness(ca)).reasons).toEqual([
    expect.stringMatching(
      /^the next intermediate is due: it must be installed by 2027-.* no request/,
    ),
  ]);
  await RequestedIntermediate.request(ca.mint, ca.now());
  ca.pass(60);
  expect((await readiness(ca)).reasons).toEqual([
    expect.stringContaining("a request for one is open"),
  ]);
  ca.pass(150 * day);
  const { ready, reasons } = await readiness(ca);
  expect(ready).toBe(true);
  expect(reasons).toEqual([
    expect.stringMatching(/^the next intermediate is late: the last authority signs until/),
  ]);
  await ca.rotate();
  expect(ca.log.operations).toContainEqual(
    expect.objectContaining({ event: "intermediate-due", level: "warning", detail: reasons[0] }),
  );
});

test("a key is certified once, even if the record of its authority does not open any more", async () => {
  const ca = await start();
  const { id, intermediate } = await certified(ca, root);
  await NewIntermediate.install(ca.mint, intermediate, ca.now());
  const again = () => NewIntermediate.install(ca.mint, intermediate, ca.now());
  await expect(again()).rejects.toThrow("a key is certified once");
  ca.store.records.set(`authority/${id}`, "junk");
  const before = new Map(ca.store.records);
  await expect(again()).rejects.toThrow("a key is certified once");
  expect(ca.store.records).toEqual(before);
});

test("a root that leaves before every reader sees the intermediate is a new one to verifiers", async () => {
  const ca = await start();
  const next = await trustAnother(ca);
  const [additional] = (await openStore(ca.mint)).additionalRoots;
  if (!additional) throw new Error("no additional root");
  const leaves = addSeconds(ca.now(), propagation / 2);
  await Mint.recordTaint(ca.mint, createRootTaint(additional, leaves, ca.now()));
  const installed = ca.now();
  const id = await renew(ca, next);
  const { authorities } = await openStore(ca.mint);
  const { signsFrom } = authorities.find((each) => each.id === id)?.schedule ?? {};
  const inEveryBundle = addSeconds(wholeSeconds(installed), leaf + 2 * propagation);
  expect(signsFrom).toEqual(inEveryBundle);
});

test("a root that every verifier has by now is no new one: its first intermediate signs once it is published", async () => {
  const ca = await start();
  const next = await trustAnother(ca);
  const installed = ca.now();
  const id = await renew(ca, next);
  const { authorities } = await openStore(ca.mint);
  const { signsFrom } = authorities.find((each) => each.id === id)?.schedule ?? {};
  expect(signsFrom).toEqual(addSeconds(wholeSeconds(installed), propagation));
});

test("a root leaves the bundle with its last intermediate", async () => {
  const ca = await start();
  await renew(ca);
  ca.pass(100 * day);
  const next = await createCa("O=company,CN=next");
  await renew(ca, next);
  ca.pass(propagation);
  expect((await publishedBundle(ca))?.roots).toHaveLength(2);
  ca.pass(265 * day);
  expect((await publishedBundle(ca))?.roots).toHaveLength(1);
});

test("an intermediate beside authorities that are their own roots signs for no longer than those", async () => {
  const ca = await start({ AUTHORITY_ROOT: "self", AUTHORITY_LIFETIME: `${100 * day}s` });
  const id = await renew(ca);
  const { authorities } = await openStore(ca.mint);
  const { schedule } = authorities.find((each) => each.id === id) ?? {};
  const { signingSeconds } = ca.mint.phaseLengths;
  expect(schedule?.signsUntil).toEqual(addSeconds(schedule?.signsFrom ?? ca.now(), signingSeconds));
});

test("the first intermediate of a signer that joins a mesh signs once every verifier has its root", async () => {
  const { mint, ...ca } = await start();
  const now = wholeSeconds(ca.now());
  for (const [joinsMesh, seconds] of [
    [false, 2 * propagation],
    [true, leaf + 2 * propagation],
  ] as const) {
    const joining = { ...ca, mint: { ...mint, joinsMesh } };
    const id = await renew(joining);
    const [authority] = (await openStore(mint)).authorities;
    expect(authority?.schedule.signsFrom).toEqual(addSeconds(now, seconds));
    await mint.store.delete({ kind: "authority", id });
  }
});
