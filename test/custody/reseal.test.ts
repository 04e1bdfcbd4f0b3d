import { verify } from "node:crypto";
import { describe, expect, test } from "vitest";
import { AuthorityRecord } from "../../src/custody/authority-record.ts";
import type { StoredRecord } from "../../src/custody/authority-store.ts";
import type { Custodian, KekRing } from "../../src/custody/kek.ts";
import { KeyedStatement, Statement } from "../../src/custody/statement.ts";
import { IntermediateRequest } from "../../src/pki/authority/new-authority.ts";
import { AdditionalRoot } from "../../src/pki/authority/trust-bundle.ts";
import { TokenKey } from "../../src/pki/jose/token-key.ts";
import { webCryptoProvider } from "../../src/pki/web-crypto.ts";
import { second } from "../testkit/ca/timeline.ts";
import { clusterLocal, tenDays, trustDomain } from "../testkit/pki/certificates.ts";
import { createRoot } from "../testkit/pki/foreign-root.ts";
import { createKek, createRecord, fieldsOf } from "../testkit/pki/sealed-record.ts";

const [old, newest] = [await createKek("old"), await createKek("newest")];
const heldBy = (...keks: KekRing): Custodian => ({ trustDomain: clusterLocal, keks });

/** A record under the old KEK, how it is sealed anew, and what it holds. */
interface Kind {
  readonly record: StoredRecord;
  readonly reseal: (record: StoredRecord, by: Custodian) => Promise<StoredRecord | undefined>;
  readonly open: (record: StoredRecord, by: Custodian) => Promise<unknown>;
}

const authority: Kind = {
  record: await createRecord(old),
  reseal: AuthorityRecord.reseal,
  open: async (record, by) => {
    const { id, schedule, certificate } = (
      await AuthorityRecord.open(record, by, webCryptoProvider)
    ).authority;
    return { id, schedule, der: certificate.der };
  },
};

const statement = (kind: "taint" | "root", record: StoredRecord): Kind => ({
  record,
  reseal: (stored, by) => Statement.reseal({ ...stored, kind }, by),
  open: (stored, by) => Statement.open(kind, stored, by),
});

async function request(): Promise<Kind> {
  const made = await IntermediateRequest.create(clusterLocal, "EC-P256");
  const content = { ...made, requestedAt: second(0) };
  return {
    record: await KeyedStatement.seal("request", content, made.extractablePrivateKey, heldBy(old)),
    reseal: (stored, by) => Statement.reseal({ ...stored, kind: "request" }, by),
    open: async (stored, by) => {
      const { iv, sealedKey, ...said } = await Statement.open("request", stored, by);
      const { privateKey } = await KeyedStatement.open("request", stored, by);
      return [said, await crypto.subtle.exportKey("jwk", privateKey)];
    },
  };
}

async function tokenKey(algorithm: TokenKey["algorithm"]): Promise<Kind> {
  const { key, extractablePrivateKey } = await TokenKey.generate(algorithm, tenDays);
  const spki = { key: Buffer.from(key.spki), format: "der", type: "spki" } as const;
  const data = Buffer.from("signed");
  return {
    record: await KeyedStatement.seal("tokenKey", key, extractablePrivateKey, heldBy(old)),
    reseal: (stored, by) => Statement.reseal({ ...stored, kind: "tokenKey" }, by),
    open: async (stored, by) => {
      const { privateKey, ...opened } = await KeyedStatement.openTokenKey(stored, by);
      const parameters = { name: privateKey.algorithm.name, hash: "SHA-256" };
      const signature = Buffer.from(await crypto.subtle.sign(parameters, privateKey, data));
      const isKeys = verify("sha256", data, { ...spki, dsaEncoding: "ieee-p1363" }, signature);
      return { ...opened, isKeys };
    },
  };
}

const taint = { id: "ab".repeat(20), taintedAt: second(0), retiresAt: second(1.5) };
const der = await createRoot({ notAfter: second(1000) });
const root = await AdditionalRoot.create(der, second(10));

const kinds: readonly (readonly [string, Kind])[] = [
  ["an authority", authority],
  ["a taint", statement("taint", await Statement.seal("taint", taint, heldBy(old)))],
  ["a root", statement("root", await Statement.seal("root", root, heldBy(old)))],
  ["a request with its key", await request()],
  ["a key for tokens of ES256", await tokenKey("ES256")],
  ["a key for tokens of RS256", await tokenKey("RS256")],
];

describe.each(kinds)("%s", (_, { record, reseal, open }) => {
  const renewing = heldBy(newest, old);

  test("opens with the newest KEK alone once it is sealed anew, as it was, and is not sealed twice", async () => {
    const resealed = await reseal(record, renewing);
    if (!resealed) throw new Error("left as it was");
    expect([resealed.kind, resealed.id]).toEqual([record.kind, record.id]);
    expect(await open(resealed, heldBy(newest))).toEqual(await open(record, heldBy(old)));
    await expect(open(resealed, heldBy(old))).rejects.toHaveProperty("check", "kek");
    expect(await reseal(resealed, renewing)).toBeUndefined();
    expect(await reseal(record, heldBy(old, newest))).toBeUndefined();
  });

  test("is not sealed anew where it does not open", async () => {
    const value = record.value.replace(/"20(\d\d-[^"]*Z)"/, '"21$1"');
    for (const [stored, by, check] of [
      [{ ...record, value }, renewing, /^(?:seal|id)$/],
      [record, { ...renewing, trustDomain: trustDomain("other.local") }, /^trust-domain$/],
      [record, heldBy(newest), /^kek$/],
    ] as const)
      await expect(reseal(stored, by)).rejects.toHaveProperty(
        "check",
        expect.stringMatching(check),
      );
  });
});

test("an authority's record sealed anew differs in its KEK, IV and sealed key alone", async () => {
  const resealed = await authority.reseal(authority.record, heldBy(newest, old));
  const { kek, iv, sealedKey, ...same } = fieldsOf(resealed ?? authority.record);
  const before = fieldsOf(authority.record);
  expect(kek).toBe("newest");
  expect(iv).not.toBe(before.iv);
  expect(sealedKey).not.toBe(before.sealedKey);
  expect({ ...before, ...same }).toEqual(before);
});
