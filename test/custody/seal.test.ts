import { verify, X509Certificate } from "node:crypto";
import { describe, expect, test } from "vitest";
import { AuthorityRecord } from "../../src/custody/authority-record.ts";
import { type AuthorityKey, NewAuthority } from "../../src/pki/authority/new-authority.ts";
import { cryptoProviders } from "../testkit/crypto-providers.ts";
import { inHex } from "../testkit/der/mutation.ts";
import { authorityOf, clusterLocal, tenDays, trustDomain } from "../testkit/pki/certificates.ts";
import { openRecord } from "../testkit/pki/record-opening.ts";
import { createKek, createRecord, fieldsOf } from "../testkit/pki/sealed-record.ts";

const kek = await createKek("k1");
const keys: readonly AuthorityKey[] = ["EC-P256", "EC-P384", "RSA-2048", "RSA-4096"];

describe.each(keys)("a sealed authority of %s", async (key) => {
  const made = await authorityOf(key);
  const record = await AuthorityRecord.seal(made, { trustDomain: clusterLocal, keks: [kek] });
  const issuer = await openRecord(record, clusterLocal, [kek]);

  test("opens as the authority that was sealed", () => {
    const { authority } = issuer;
    expect(record.id).toBe(made.authority.id);
    expect(authority.id).toBe(made.authority.id);
    expect(authority.schedule).toEqual(made.authority.schedule);
    expect(authority.roots.map(inHex)).toEqual(made.authority.roots.map(inHex));
    expect(authority.intermediates).toEqual([]);
    expect(inHex(authority.certificate.der)).toBe(inHex(made.authority.certificate.der));
    expect(inHex(authority.publicKey.spki)).toBe(inHex(made.authority.publicKey.spki));
  });

  test("opens without its sealed key", () => {
    const names = ["certificate", "id", "intermediates", "publicKey", "roots", "schedule"];
    expect(Object.keys(issuer.authority).toSorted()).toEqual(names);
  });

  test.each(cryptoProviders)(
    "has the key of its certificate, opened by %s",
    async (_, provider) => {
      const custodian = { trustDomain: clusterLocal, keks: [kek] as const };
      const { signingKey } = await AuthorityRecord.open(record, custodian, provider);
      const data = Buffer.from("data");
      const signature = new Uint8Array(await signingKey.sign(data));
      const { publicKey } = new X509Certificate(made.authority.certificate.der);
      const verifier = { key: publicKey, dsaEncoding: signingKey.dsaEncoding };
      const hash = key === "EC-P384" ? "sha384" : "sha256";
      expect(verify(hash, data, verifier, signature)).toBe(true);
    },
  );

  test("has no part of its private key in the clear", async () => {
    const { d, p, q } = await crypto.subtle.exportKey("jwk", made.extractablePrivateKey);
    const fields = fieldsOf(record);
    const octets = [fields.sealedKey, fields.iv, fields.certificate, ...fields.roots]
      .map((text) => Buffer.from(text, "base64").toString("hex"))
      .join();
    for (const secret of [d, p, q].filter((number) => number !== undefined)) {
      expect(octets).not.toContain(Buffer.from(secret, "base64url").toString("hex").slice(0, 32));
    }
  });
});

test("sealing one authority twice gives two IVs and two ciphertexts", async () => {
  const made = await NewAuthority.create(clusterLocal, "EC-P256", tenDays);
  const seal = async () =>
    fieldsOf(await AuthorityRecord.seal(made, { trustDomain: clusterLocal, keks: [kek] }));
  const [one, other] = [await seal(), await seal()];
  expect(Buffer.from(one.iv, "base64")).toHaveLength(12);
  expect(one.iv).not.toBe(other.iv);
  expect(one.sealedKey).not.toBe(other.sealedKey);
});

test("the first KEK of the ring seals, and any of them opens", async () => {
  const newer = await createKek("k2");
  const made = await NewAuthority.create(clusterLocal, "EC-P256", tenDays);
  const old = await AuthorityRecord.seal(made, { trustDomain: clusterLocal, keks: [kek] });
  const fresh = await AuthorityRecord.seal(made, { trustDomain: clusterLocal, keks: [newer, kek] });
  expect([fieldsOf(old).kek, fieldsOf(fresh).kek]).toEqual(["k1", "k2"]);
  for (const record of [old, fresh]) {
    const issuer = await openRecord(record, clusterLocal, [newer, kek]);
    expect(issuer.authority.id).toBe(record.id);
  }
});

test("trust domains and KEK ids come back unchanged, whatever characters they have", async () => {
  for (const id of ["", "ключ", '"},{', "\u2028", "\ud800"]) {
    const odd = await createKek(id);
    const domain = trustDomain("_a-b.c");
    const record = await createRecord(odd, "EC-P256", domain);
    expect(fieldsOf(record).kek).toBe(id);
    expect((await openRecord(record, domain, [odd])).authority.id).toBe(record.id);
  }
});
