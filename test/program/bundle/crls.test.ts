import { crlsPem, parseCrls } from "../../../src/program/bundle/crl-document.ts";
import "reflect-metadata/lite";
import * as x509 from "@peculiar/x509";
import { expect, test } from "vitest";
import { FetchError } from "../../../src/foundation/fetch.ts";
import { Pem } from "../../../src/pki/encoding/pem.ts";
import { addSeconds } from "../../../src/pki/x509/validity.ts";
import { type MeshAuthorities, MeshCrls } from "../../../src/program/bundle/crls.ts";
import {
  type CrlAuthority,
  type CrlDepartures,
  createCrlAuthority,
  crlTime,
  parsedCrl,
} from "../../testkit/pki/crl-authority.ts";

// As in a real mesh, the authorities share one name.
const [a, b, stranger] = await Promise.all([1, 2, 3].map(() => createCrlAuthority()));
const company = await createCrlAuthority("CN=Company");
const [inner, innerToo] = await Promise.all(
  [1, 2].map(() => createCrlAuthority("O=cluster.local", { issuer: company })),
);
const mute = await createCrlAuthority("O=cluster.local", { mayList: false });
if (!a || !b || !stranger || !inner || !innerToo) throw new Error("an authority is missing");

const after = (seconds: number) => addSeconds(crlTime, seconds);

const mesh = (roots: readonly CrlAuthority[], ...below: CrlAuthority[]): MeshAuthorities => ({
  roots: roots.map(({ certificate }) => certificate),
  intermediates: below.map(({ certificate }) => certificate),
});
const listOf = async (authority: CrlAuthority, departures?: CrlDepartures) =>
  parsedCrl(await authority.crl(departures));

test("CRLs are used when each root of the mesh has one", async () => {
  const known = new MeshCrls();
  const crls = [await listOf(a), await listOf(b)];
  expect(known.take(crls, mesh([a, b]), crlTime)).toEqual([]);
  expect(known.usable(mesh([a, b]), crlTime)).toMatchObject({ crls, missing: [] });
});

test("CRLs are not used while a root has none, and say which", async () => {
  const known = new MeshCrls();
  known.take([await listOf(a)], mesh([a, b]), crlTime);
  const { crls, missing } = known.usable(mesh([a, b]), crlTime);
  expect(crls).toEqual([]);
  expect(missing).toEqual([b.certificate]);
  expect(known.usable(mesh([a]), crlTime).crls).toHaveLength(1);
});

test("CRLs stop being used some seconds before one runs out", async () => {
  const known = new MeshCrls();
  const nextUpdate = after(60);
  known.take([await listOf(a, { nextUpdate }), await listOf(b)], mesh([a, b]), crlTime);
  const { until } = known.usable(mesh([a, b]), crlTime);
  expect(until).toEqual(after(55));
  expect(known.usable(mesh([a, b]), after(54)).crls).toHaveLength(2);
  const { crls, missing } = known.usable(mesh([a, b]), after(55));
  expect(crls).toEqual([]);
  expect(missing).toEqual([a.certificate]);
});

test("CRLs are replaced by newer ones, also by an empty one", async () => {
  const known = new MeshCrls();
  known.take([await listOf(a, { number: 4, revoked: ["01"] })], mesh([a]), crlTime);
  const empty = await listOf(a, { number: 5 });
  expect(known.take([empty], mesh([a]), crlTime)).toEqual([]);
  expect(known.all).toEqual([empty]);
  expect(empty.entries).toBeUndefined();
});

const idp = new x509.Extension("2.5.29.28", true, Uint8Array.of(0x30, 0));

test.each<[string, string, () => Promise<Awaited<ReturnType<typeof listOf>>>]>([
  ["of an authority that nobody trusts", "issuer-unknown", () => listOf(stranger)],
  ["that another key has signed", "signature-invalid", () => listOf(a, { signer: stranger })],
  ["with an older number", "number-backwards", () => listOf(a, { number: 1 })],
  [
    "with the same number and an earlier time",
    "number-backwards",
    () => listOf(a, { number: 2, thisUpdate: after(-7200) }),
  ],
  ["that has run out", "not-current", () => listOf(a, { number: 3, nextUpdate: after(-1) })],
  ["from the future", "not-current", () => listOf(a, { number: 3, thisUpdate: after(1) })],
  [
    "without a key identifier",
    "key-identifier-missing",
    () => listOf(a, { number: 3, hasKeyIdentifier: false }),
  ],
  [
    "with an unknown critical extension",
    "critical-extension-unknown",
    () => listOf(a, { number: 3, extensions: [idp] }),
  ],
])("a CRL %s is refused, and the known one stays", async (_what, fault, create) => {
  const known = new MeshCrls();
  const good = await listOf(a, { number: 2 });
  known.take([good], mesh([a]), crlTime);
  expect(known.take([await create()], mesh([a]), crlTime)).toEqual([fault]);
  expect(known.usable(mesh([a]), crlTime).crls).toEqual([good]);
});

test("a CRL of an authority that may sign none is refused", async () => {
  const known = new MeshCrls();
  expect(known.take([await listOf(mute)], mesh([mute]), crlTime)).toEqual(["signature-invalid"]);
  expect(known.usable(mesh([mute]), crlTime).missing).toEqual([mute.certificate]);
});

test("a bad CRL does not keep out the good ones beside it", async () => {
  const known = new MeshCrls();
  const crls = [await listOf(a), await listOf(b, { signer: stranger })];
  expect(known.take(crls, mesh([a, b]), crlTime)).toEqual(["signature-invalid"]);
  expect(known.all).toEqual([crls[0]]);
});

test("CRLs of intermediates count for the root above them", async () => {
  const known = new MeshCrls();
  const crls = [await listOf(inner)];
  expect(known.take(crls, mesh([company], inner), crlTime)).toEqual([]);
  expect(known.usable(mesh([company], inner), crlTime).crls).toEqual(crls);
  expect(known.usable(mesh([company, a], inner), crlTime).missing).toEqual([a.certificate]);
});

// The next intermediate signs for other workloads first, and this one has not seen its certificate.
test("CRLs of unknown intermediates are used beside those of a known one", async () => {
  const known = new MeshCrls();
  const crls = [await listOf(inner), await listOf(innerToo)];
  expect(known.take(crls, mesh([company], inner), crlTime)).toEqual([]);
  expect(known.usable(mesh([company], inner), crlTime).crls).toEqual(crls);
});

test("a CRL that was kept for an unknown CA is none of a root of its names that has not signed it", async () => {
  const known = new MeshCrls();
  const forged = await listOf(b, { signer: stranger });
  const crls = [await listOf(inner), forged];
  expect(known.take(crls, mesh([company], inner), crlTime)).toEqual([]);
  const { missing } = known.usable(mesh([company, b], inner), crlTime);
  expect(missing).toEqual([b.certificate]);
});

test("two CRLs whose roots come later are both kept for them", async () => {
  const known = new MeshCrls();
  const crls = [await listOf(a), await listOf(b)];
  known.take(crls, mesh([stranger]), crlTime);
  expect(known.usable(mesh([a, b]), crlTime)).toMatchObject({ crls, missing: [] });
});

test("a new root waits for no CRL while that of a known root has run out", async () => {
  const known = new MeshCrls();
  const nextUpdate = after(60);
  known.take([await listOf(a), await listOf(b, { nextUpdate })], mesh([a, b]), crlTime);
  known.usable(mesh([a, b]), crlTime);
  const { crls, isAwaiting } = known.usable(mesh([a, b, stranger]), nextUpdate);
  expect([crls, isAwaiting]).toEqual([[], false]);
});

test("CRLs stay for as long as asked after their root has left, and keep no other from use", async () => {
  const known = new MeshCrls({ margin: 5, awaited: 10, kept: 60 });
  known.take([await listOf(a), await listOf(b)], mesh([a, b]), crlTime);
  expect(known.usable(mesh([a, b]), crlTime).crls).toHaveLength(2);
  expect(known.usable(mesh([b]), after(59)).crls).toHaveLength(2);
  expect(known.usable(mesh([b]), after(60)).crls).toHaveLength(1);
});

test("CRLs without an end are used for good", async () => {
  const known = new MeshCrls();
  known.take([await listOf(a, { nextUpdate: undefined })], mesh([a]), crlTime);
  expect(known.usable(mesh([a]), after(1e9))).toMatchObject({ until: undefined });
  expect(known.hasCurrent(after(1e9))).toBe(true);
});

const one = await a.crl({ number: 7, revoked: ["01", "02"] });

test("CRLs are read with issuer, times and number, and written again", async () => {
  const [first, second] = parseCrls(`${one}\n${await a.crl()}`);
  expect(first).toMatchObject({
    number: 7n,
    thisUpdate: new Date("2026-06-01T11:00:00Z"),
    nextUpdate: new Date("2026-06-01T13:00:00Z"),
    hasUnknownCritical: false,
  });
  expect(first?.authorityKeyIdentifier).toHaveLength(20);
  expect(first?.entries?.length).toBeGreaterThan(0);
  expect(second?.entries).toBeUndefined();
  expect(first && crlsPem([first])).toBe(one);
});

const block = (body: string) => `-----BEGIN X509 CRL-----\n${body}\n-----END X509 CRL-----\n`;

test.each([
  ["nothing", ""],
  ["a list beside a certificate", `${one}${a.ca.pem}`],
  ["a list whose last line is missing", one.slice(0, -20)],
  ["a list that is cut", block(one.split("\n").slice(1, 3).join("\n"))],
  ["no DER", block("MQ==")],
  ["an octet after a list", Pem.format("X509 CRL", Buffer.concat([der(one), Buffer.of(0)]))],
  ["too many CRLs", one.repeat(101)],
])("%s is refused", (_what, text) => {
  expect(() => parseCrls(text)).toThrow(FetchError);
});

function der(pem: string): Buffer {
  return Buffer.from(pem.replace(/-----.*-----|\s/g, ""), "base64");
}
