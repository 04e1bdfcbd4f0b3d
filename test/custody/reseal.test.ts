import { expect, test } from "vitest";
import { resealAuthority } from "../../src/custody/authority-record.ts";
import { openTokenKey, resealTokenKey, sealTokenKey } from "../../src/custody/token-key-record.ts";
import { generateTokenKey } from "../../src/pki/jose/token-key.ts";
import { webCryptoProvider } from "../../src/pki/web-crypto-provider.ts";
import { inHex } from "../testkit/der/mutation.ts";
import { clusterLocal, trustDomain } from "../testkit/pki/certificates.ts";
import { openRecord } from "../testkit/pki/record-opening.ts";
import { createKek, createRecord, fieldsOf, tampered } from "../testkit/pki/sealed-record.ts";

const [old, newest] = [await createKek("old"), await createKek("newest")];
const record = await createRecord(old);

const reseal = async () => {
  const resealed = await resealAuthority(record, clusterLocal, [newest, old]);
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
  expect(await resealAuthority(record, clusterLocal, [old, newest])).toBeUndefined();
});

test("a record that does not open is not sealed anew", async () => {
  const changed = tampered(record, ({ schedule }) => ({
    schedule: { ...schedule, retiresAt: "2027-03-11T00:00:00.000Z" },
  }));
  const keks = [newest, old] as const;
  await expect(resealAuthority(changed, clusterLocal, keks)).rejects.toHaveProperty(
    "check",
    "seal",
  );
  const elsewhere = resealAuthority(record, trustDomain("other.local"), keks);
  await expect(elsewhere).rejects.toHaveProperty("check", "trust-domain");
  const withoutOld = resealAuthority(record, clusterLocal, [newest]);
  await expect(withoutOld).rejects.toHaveProperty("check", "kek");
});

test.each(["ES256", "RS256"] as const)(
  "a key for tokens (%s) sealed anew opens with the newest KEK alone, as the same key",
  async (algorithm) => {
    const at = new Date("2026-06-01T00:00:00.000Z");
    const schedule = { publishedFrom: at, signsFrom: at, signsUntil: at, retiresAt: at };
    const made = await generateTokenKey(algorithm, schedule);
    const stored = await sealTokenKey(made, clusterLocal, [old]);
    const resealed = await resealTokenKey(stored, clusterLocal, [newest, old]);
    if (!resealed) throw new Error("left as it was");
    const { signingKey, ...key } = await openTokenKey(
      resealed,
      clusterLocal,
      [newest],
      webCryptoProvider,
    );
    expect(key).toEqual(made.key);
    const signed = new TextEncoder().encode("signed");
    const before = await openTokenKey(stored, clusterLocal, [old], webCryptoProvider);
    // RSASSA-PKCS1-v1_5 signs the same octets alike.
    if (algorithm === "RS256") {
      expect(await signingKey.sign(signed)).toEqual(await before.signingKey.sign(signed));
    }
    const opening = openTokenKey(resealed, clusterLocal, [old], webCryptoProvider);
    await expect(opening).rejects.toHaveProperty("check", "kek");
    expect(await resealTokenKey(resealed, clusterLocal, [newest, old])).toBeUndefined();
    const json = JSON.parse(stored.value);
    json.says.signsUntil = "2026-07-01T00:00:00.000Z";
    const moved = { ...stored, value: JSON.stringify(json) };
    await expect(resealTokenKey(moved, clusterLocal, [newest, old])).rejects.toThrow();
  },
);
