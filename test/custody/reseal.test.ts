import { expect, test } from "vitest";
import { AuthorityRecord } from "../../src/custody/authority-record.ts";
import type { KekRing } from "../../src/custody/kek.ts";
import { KeyedStatement } from "../../src/custody/keyed-statement.ts";
import { TokenKey } from "../../src/pki/jose/token-key.ts";
import { inHex } from "../testkit/der/mutation.ts";
import { clusterLocal, trustDomain } from "../testkit/pki/certificates.ts";
import { openRecord } from "../testkit/pki/record-opening.ts";
import { createKek, createRecord, fieldsOf, tampered } from "../testkit/pki/sealed-record.ts";

const [old, newest] = [await createKek("old"), await createKek("newest")];
const record = await createRecord(old);

const reseal = async () => {
  const resealed = await AuthorityRecord.reseal(record, {
    trustDomain: clusterLocal,
    keks: [newest, old],
  });
  if (!resealed) throw new Error("left as it was");
  return resealed;
};

test("a record sealed anew opens with the newest KEK alone, as the same authority", async () => {
  const [before, after] = [
    await openRecord(record, clusterLocal, [old]),
    await openRecord(await reseal(), clusterLocal, [newest]),
  ];
  expect(after.authority.id).toBe(before.authority.id);
  expect(after.authority.schedule).toEqual(before.authority.schedule);
  expect(inHex(after.authority.certificate.der)).toBe(inHex(before.authority.certificate.der));
});

test("a record sealed anew differs in its KEK, IV and sealed key alone", async () => {
  const { kek, iv, sealedKey, ...same } = fieldsOf(await reseal());
  const before = fieldsOf(record);
  expect(kek).toBe("newest");
  expect(iv).not.toBe(before.iv);
  expect(sealedKey).not.toBe(before.sealedKey);
  expect({ ...before, ...same }).toEqual(before);
});

test("a record under the newest KEK is not sealed anew", async () => {
  expect(
    await AuthorityRecord.reseal(record, { trustDomain: clusterLocal, keks: [old, newest] }),
  ).toBeUndefined();
});

test("a record that does not open is not sealed anew", async () => {
  const changed = tampered(record, ({ schedule }) => ({
    schedule: { ...schedule, retiresAt: "2027-03-11T00:00:00.000Z" },
  }));
  const keks = [newest, old] as const;
  const custodian = { trustDomain: clusterLocal, keks };
  for (const [stored, by, check] of [
    [changed, custodian, "seal"],
    [record, { ...custodian, trustDomain: trustDomain("other.local") }, "trust-domain"],
    [record, { ...custodian, keks: [newest] as const }, "kek"],
  ] as const)
    await expect(AuthorityRecord.reseal(stored, by)).rejects.toHaveProperty("check", check);
});

test.each(["ES256", "RS256"] as const)(
  "a key for tokens (%s) sealed anew opens with the newest KEK alone, as the same key",
  async (algorithm) => {
    const at = new Date("2026-06-01T00:00:00.000Z");
    const schedule = { publishedFrom: at, signsFrom: at, signsUntil: at, retiresAt: at };
    const made = await TokenKey.generate(algorithm, schedule);
    const held = (...keks: KekRing) => ({ trustDomain: clusterLocal, keks });
    const key = made.extractablePrivateKey;
    const stored = await KeyedStatement.seal("tokenKey", made.key, key, held(old));
    const resealed = await KeyedStatement.reseal("tokenKey", stored, held(newest, old));
    if (!resealed) throw new Error("left as it was");
    const { privateKey, ...opened } = await KeyedStatement.openTokenKey(resealed, held(newest));
    expect(opened).toEqual(made.key);
    const signed = new TextEncoder().encode("signed");
    const before = await KeyedStatement.openTokenKey(stored, held(old));
    // RSASSA-PKCS1-v1_5 signs the same octets alike.
    if (algorithm === "RS256") {
      const sign = (key: CryptoKey) => crypto.subtle.sign("RSASSA-PKCS1-v1_5", key, signed);
      expect(await sign(privateKey)).toEqual(await sign(before.privateKey));
    }
    const opening = KeyedStatement.openTokenKey(resealed, held(old));
    await expect(opening).rejects.toHaveProperty("check", "kek");
    expect(await KeyedStatement.reseal("tokenKey", resealed, held(newest, old))).toBeUndefined();
    const json = JSON.parse(stored.value);
    json.says.signsUntil = "2026-07-01T00:00:00.000Z";
    const moved = { ...stored, value: JSON.stringify(json) };
    await expect(KeyedStatement.reseal("tokenKey", moved, held(newest, old))).rejects.toThrow();
  },
);
