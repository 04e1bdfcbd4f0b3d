import { expect, test } from "vitest";
import { resealAuthority } from "../../src/custody/authority-record.ts";
import type { KekRing } from "../../src/custody/kek.ts";
import { openTokenKey, resealKeyed, sealKeyed } from "../../src/custody/keyed-statement.ts";
import { webCryptoProvider } from "../../src/pki/crypto-provider.ts";
import { generateTokenKey } from "../../src/pki/jose/token-key.ts";
import { inHex } from "../testkit/der/mutation.ts";
import { clusterLocal, trustDomain } from "../testkit/pki/certificates.ts";
import { openRecord } from "../testkit/pki/record-opening.ts";
import { createKek, createRecord, fieldsOf, tampered } from "../testkit/pki/sealed-record.ts";

const [old, newest] = [await createKek("old"), await createKek("newest")];
const record = await createRecord(old);

const reseal = async () => {
  const resealed = await resealAuthority(record, {
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
    await resealAuthority(record, { trustDomain: clusterLocal, keks: [old, newest] }),
  ).toBeUndefined();
});

test("a record that does not open is not sealed anew", async () => {
  const changed = tampered(record, ({ schedule }) => ({
    schedule: { ...schedule, retiresAt: "2027-03-11T00:00:00.000Z" },
  }));
  const keks = [newest, old] as const;
  await expect(
    resealAuthority(changed, { trustDomain: clusterLocal, keks }),
  ).rejects.toHaveProperty("check", "seal");
  const elsewhere = resealAuthority(record, { trustDomain: trustDomain("other.local"), keks });
  await expect(elsewhere).rejects.toHaveProperty("check", "trust-domain");
  const withoutOld = resealAuthority(record, { trustDomain: clusterLocal, keks: [newest] });
  await expect(withoutOld).rejects.toHaveProperty("check", "kek");
});

test.each(["ES256", "RS256"] as const)(
  "a key for tokens (%s) sealed anew opens with the newest KEK alone, as the same key",
  async (algorithm) => {
    const at = new Date("2026-06-01T00:00:00.000Z");
    const schedule = { publishedFrom: at, signsFrom: at, signsUntil: at, retiresAt: at };
    const made = await generateTokenKey(algorithm, schedule);
    const held = (...keks: KekRing) => ({ trustDomain: clusterLocal, keks });
    const key = made.extractablePrivateKey;
    const stored = await sealKeyed("tokenKey", made.key, key, held(old));
    const resealed = await resealKeyed("tokenKey", stored, held(newest, old));
    if (!resealed) throw new Error("left as it was");
    const { signingKey, ...opened } = await openTokenKey(resealed, held(newest), webCryptoProvider);
    expect(opened).toEqual(made.key);
    const signed = new TextEncoder().encode("signed");
    const before = await openTokenKey(stored, held(old), webCryptoProvider);
    // RSASSA-PKCS1-v1_5 signs the same octets alike.
    if (algorithm === "RS256") {
      expect(await signingKey.sign(signed)).toEqual(await before.signingKey.sign(signed));
    }
    const opening = openTokenKey(resealed, held(old), webCryptoProvider);
    await expect(opening).rejects.toHaveProperty("check", "kek");
    expect(await resealKeyed("tokenKey", resealed, held(newest, old))).toBeUndefined();
    const json = JSON.parse(stored.value);
    json.says.signsUntil = "2026-07-01T00:00:00.000Z";
    const moved = { ...stored, value: JSON.stringify(json) };
    await expect(resealKeyed("tokenKey", moved, held(newest, old))).rejects.toThrow();
  },
);
