import { expect, test } from "vitest";
import type { StoredRecord } from "../../src/custody/authority-store.ts";
import type { KekRing } from "../../src/custody/kek.ts";
import { RecordError } from "../../src/custody/record-fields.ts";
import { KeyedStatement, Statement } from "../../src/custody/statement.ts";
import { IntermediateRequest } from "../../src/pki/authority/new-authority.ts";
import { TokenKey } from "../../src/pki/jose/token-key.ts";
import { clusterLocal, trustDomain } from "../testkit/pki/certificates.ts";
import { createKek } from "../testkit/pki/sealed-record.ts";

const [old, newest] = [await createKek("old"), await createKek("newest")];
const custodian = { trustDomain: clusterLocal, keks: [old] as const };
const request = await IntermediateRequest.create(clusterLocal, "EC-P256");
const requestedAt = new Date("2026-06-01T00:00:00.000Z");
const record = await KeyedStatement.seal(
  "request",
  { ...request, requestedAt },
  request.extractablePrivateKey,
  custodian,
);

const pkcs8 = async (key: CryptoKey) =>
  Buffer.from(await crypto.subtle.exportKey("pkcs8", key)).toString("base64");

async function checkOf(work: Promise<unknown>): Promise<string> {
  const error = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (error instanceof RecordError) return error.check;
  throw new Error(`ended in ${error}`);
}

const openKey = async (stored: StoredRecord, keks: KekRing) =>
  (await KeyedStatement.open("request", stored, { trustDomain: clusterLocal, keks })).privateKey;

const opened = (stored: StoredRecord, keks: KekRing = [old], domain = clusterLocal) =>
  Statement.open("request", stored, { trustDomain: domain, keks });

/** The record with another statement, and the MAC that it had. */
interface Says {
  requestedAt: string;
  csr: string;
  iv: string;
  sealedKey: string;
}

function saying(change: (says: Says) => Says): StoredRecord {
  const json = JSON.parse(record.value) as { says: Says };
  return { ...record, value: JSON.stringify({ ...json, says: change(json.says) }) };
}

test("opens with its age and its CSR, and its key apart", async () => {
  const { id, csr, publicKey } = request;
  expect(record).toMatchObject({ kind: "request", id });
  expect(await opened(record)).toMatchObject({ id, requestedAt, csr, publicKey });
  const key = await openKey(record, [old]);
  expect(await pkcs8(key)).toBe(await pkcs8(request.extractablePrivateKey));
});

test("says nothing of its key in the clear", async () => {
  const { d = "" } = await crypto.subtle.exportKey("jwk", request.extractablePrivateKey);
  const secret = Buffer.from(d, "base64url");
  const texts = record.value.split(/[^A-Za-z0-9+/=]+/);
  for (const text of texts) {
    expect(Buffer.from(text, "base64").includes(secret.subarray(0, 8))).toBe(false);
  }
});

test.for<[string, StoredRecord, string]>([
  ["another age", saying((says) => ({ ...says, requestedAt: "2020-01-01T00:00:00.000Z" })), "seal"],
  ["another CSR", saying((says) => ({ ...says, csr: "MAA=" })), "seal"],
  ["another key", saying((says) => ({ ...says, sealedKey: says.iv })), "seal"],
  ["another id", { ...record, id: "ab".repeat(20) }, "id"],
  ["a stranger's text", { ...record, value: "{}" }, "form"],
])("does not open with %s", async ([, stored, check]) => {
  expect(await checkOf(opened(stored))).toBe(check);
  expect(await checkOf(openKey(stored, [old]))).toBe(check);
});

test("does not open its key with another age under a good MAC", async () => {
  const changed = { ...(await opened(record)), requestedAt: new Date(0) };
  const stored = await Statement.seal("request", changed, custodian);
  expect(await checkOf(openKey(stored, [old]))).toBe("seal");
});

test("does not open elsewhere: as another kind, for another trust domain, under another KEK", async () => {
  expect(await checkOf(opened({ ...record, kind: "root" }))).toBe("seal");
  expect(await checkOf(opened(record, [old], trustDomain("other.test")))).toBe("trust-domain");
  expect(await checkOf(opened(record, [newest]))).toBe("kek");
  expect(await checkOf(opened(record, [await createKek("old")]))).toBe("seal");
});

test("the key of a token does not open with another instant under a good MAC, and nobody can export it", async () => {
  const now = new Date("2026-06-01T00:00:00.000Z");
  const schedule = { publishedFrom: now, signsFrom: now, signsUntil: now, retiresAt: now };
  const { key, extractablePrivateKey } = await TokenKey.generate("ES256", schedule);
  const sealed = await KeyedStatement.seal("tokenKey", key, extractablePrivateKey, custodian);
  const { privateKey } = await KeyedStatement.openTokenKey(sealed, custodian);
  expect(privateKey.extractable).toBe(false);
  const value = await Statement.open("tokenKey", sealed, custodian);
  for (const name of ["publishedFrom", "signsFrom", "signsUntil", "retiresAt"] as const) {
    const changed = { ...value, schedule: { ...schedule, [name]: new Date(0) } };
    const stored = await Statement.seal("tokenKey", changed, custodian);
    expect(await checkOf(KeyedStatement.openTokenKey(stored, custodian))).toBe("seal");
  }
});
