import { expect, test } from "vitest";
import type { StoredRecord } from "../../src/custody/authority-store.ts";
import { Kek } from "../../src/custody/kek.ts";
import type { RecordError } from "../../src/custody/record-fields.ts";
import { NewAuthority } from "../../src/pki/authority/new-authority.ts";
import { applyEdit, type DerEdit, flipBit } from "../testkit/der/mutation.ts";
import { clusterLocal, schedule, trustDomain } from "../testkit/pki/certificates.ts";
import { openRecord } from "../testkit/pki/record-opening.ts";
import {
  createKek,
  createRecord,
  fieldsOf,
  type RecordFields,
  tampered,
} from "../testkit/pki/sealed-record.ts";

type Check = RecordError["check"];

const octets = crypto.getRandomValues(new Uint8Array(Kek.octets));
const [kek, spare] = [await createKek("k1", octets), await createKek("spare")];
const record = await createRecord(kek);
const other = await createRecord(kek);
const otherDomain = trustDomain("other.local");

const checkOf = async (
  stored: StoredRecord,
  domain = clusterLocal,
  keks: Parameters<typeof openRecord>[2] = [kek, spare],
): Promise<Check | undefined> => {
  try {
    await openRecord(stored, domain, keks);
    return undefined;
  } catch (error) {
    return (error as RecordError).check;
  }
};

test("opens the record that every case changes", async () => {
  expect(await checkOf(record)).toBeUndefined();
  expect(await checkOf(tampered(record, () => ({})))).toBeUndefined();
});

const cut = (base64: string, octetsLess: number): string =>
  Buffer.from(base64, "base64").subarray(0, -octetsLess).toString("base64");
const edited = (base64: string, edit: DerEdit): string =>
  applyEdit(Buffer.from(base64, "base64"), edit).toString("base64");

type Change = (fields: RecordFields) => object;
const at =
  (name: keyof RecordFields["schedule"], instant: string): Change =>
  ({ schedule }) => ({ schedule: { ...schedule, [name]: instant } });

const changing =
  (name: "certificate" | "iv" | "sealedKey", change: (base64: string) => string): Change =>
  (fields) => ({ [name]: change(fields[name]) });

const { certificate: otherCertificate, sealedKey: otherKey, iv: otherIv } = fieldsOf(other);

const cases: readonly [string, Check, Change][] = [
  ["another trust domain's name", "trust-domain", () => ({ trustDomain: "other.local" })],
  ["another id", "id", () => ({ id: other.id })],
  ["its id in upper case", "id", ({ id }) => ({ id: id.toUpperCase() })],
  ["a KEK that nobody has", "kek", () => ({ kek: "k0" })],
  ["the id of another KEK of the ring", "seal", () => ({ kek: "spare" })],
  ["a publication a millisecond earlier", "seal", at("publishedFrom", "2026-02-28T23:59:59.999Z")],
  ["an earlier signing", "seal", at("signsFrom", "2026-02-01T00:00:00.000Z")],
  ["a longer signing", "seal", at("signsUntil", "2027-03-11T00:00:00.000Z")],
  ["a later retirement", "seal", at("retiresAt", "2027-03-11T00:00:00.000Z")],
  ["a root more", "seal", ({ roots }) => ({ roots: [...roots, otherCertificate] })],
  ["another root", "seal", () => ({ roots: [otherCertificate] })],
  ["a root that is empty", "seal", () => ({ roots: [""] })],
  ["an intermediate", "seal", () => ({ intermediates: [otherCertificate] })],
  [
    "the certificate and key of another",
    "id",
    () => ({ certificate: otherCertificate, sealedKey: otherKey, iv: otherIv }),
  ],
  ["the certificate of another", "id", () => ({ certificate: otherCertificate })],
  ["the sealed key of another", "seal", () => ({ sealedKey: otherKey, iv: otherIv })],
  [
    "a certificate with another serial number",
    "seal",
    changing("certificate", (der) => edited(der, { at: [0, 1], replace: "020101" })),
  ],
  ["a certificate cut short", "certificate", changing("certificate", (der) => cut(der, 1))],
  [
    "a certificate with octets behind it",
    "certificate",
    changing("certificate", (der) => edited(der, { at: [], after: "00" })),
  ],
  ["a certificate of nothing", "certificate", () => ({ certificate: "" })],
  [
    "a certificate of a key that may not be",
    "certificate",
    changing("certificate", (der) => edited(der, { at: [0, 6, 0, 1], replace: "06052b8104000a" })),
  ],
  ["an IV cut short", "seal", changing("iv", (iv) => cut(iv, 1))],
  ["no IV", "seal", () => ({ iv: "" })],
  ["a sealed key without its last octet", "seal", changing("sealedKey", (key) => cut(key, 1))],
  ["a sealed key shorter than a tag", "seal", () => ({ sealedKey: "AAAA" })],
  ["no sealed key", "seal", () => ({ sealedKey: "" })],
];

test.each(cases)("refuses a record with %s, by its %s", async (_, check, change) => {
  expect(await checkOf(tampered(record, change))).toBe(check);
});

test("refuses a record under another's id", async () => {
  expect(await checkOf({ ...record, id: other.id })).toBe("id");
});

test("refuses a record with another id, even under that id", async () => {
  const moved = tampered(record, () => ({ id: other.id }));
  expect(await checkOf({ ...moved, id: other.id })).toBe("id");
});

test("refuses a record with another's certificate and id, even under that id", async () => {
  const moved = tampered(record, () => ({ id: other.id, certificate: otherCertificate }));
  expect(await checkOf({ ...moved, id: other.id })).toBe("seal");
});

test("refuses the record of another trust domain, even with its name changed", async () => {
  expect(await checkOf(record, otherDomain)).toBe("trust-domain");
  const renamed = tampered(record, () => ({ trustDomain: otherDomain }));
  expect(await checkOf(renamed, otherDomain)).toBe("seal");
});

test("refuses a record whose KEK is not configured", async () => {
  expect(await checkOf(record, clusterLocal, [spare])).toBe("kek");
});

test("refuses a record under a KEK of the same id and other octets", async () => {
  const oneBitOff = await createKek("k1", flipBit(octets, 77));
  expect(await checkOf(record, clusterLocal, [oneBitOff])).toBe("seal");
  expect(await checkOf(record, clusterLocal, [await createKek("k1", octets)])).toBeUndefined();
});

test("refuses a key that was sealed with another key's certificate", async () => {
  const made = await NewAuthority.create(
    clusterLocal,
    "EC-P384",
    schedule("2026-03-01T00:00:00.000Z", "2026-03-02T00:00:00.000Z"),
  );
  const certificate = Buffer.from(made.authority.certificate.der).toString("base64");
  const moved = tampered(record, () => ({ id: made.authority.id, certificate }));
  expect(await checkOf({ ...moved, id: made.authority.id })).toBe("seal");
});
