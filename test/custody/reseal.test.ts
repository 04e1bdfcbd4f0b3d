import { expect, test } from "vitest";
import { resealAuthority } from "../../src/custody/authority-record.ts";
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
