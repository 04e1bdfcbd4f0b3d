import "reflect-metadata/lite";
import { createHash, createPrivateKey, X509Certificate } from "node:crypto";
import * as x509 from "@peculiar/x509";
import { describe, expect, test } from "vitest";
import { NewAuthority } from "../../../src/pki/authority/new-authority.ts";
import { contentOf, der, elementAt, hex, inHex } from "../../testkit/der/mutation.ts";
import { clusterLocal, schedule, tenDays, trustDomain } from "../../testkit/pki/certificates.ts";

const keys = ["EC-P256", "EC-P384", "RSA-2048", "RSA-4096"] as const;

describe.each(keys)("a self-signed authority of %s", async (key) => {
  const { authority, extractablePrivateKey } = await NewAuthority.create(
    clusterLocal,
    key,
    tenDays,
  );
  const certificate = Buffer.from(authority.certificate.der);
  const ofNode = new X509Certificate(certificate);

  test("verifies under its own key, for node:crypto and for @peculiar/x509", async () => {
    expect(ofNode.verify(ofNode.publicKey)).toBe(true);
    expect(ofNode.checkIssued(ofNode)).toBe(true);
    expect(ofNode.ca).toBe(true);
    expect(await new x509.X509Certificate(certificate).isSelfSigned()).toBe(true);
  });

  test("has a key of the requested kind", () => {
    const { asymmetricKeyType, asymmetricKeyDetails } = ofNode.publicKey;
    const size = asymmetricKeyDetails?.modulusLength ?? asymmetricKeyDetails?.namedCurve;
    const expected = {
      "EC-P256": ["ec", "prime256v1"],
      "EC-P384": ["ec", "secp384r1"],
      "RSA-2048": ["rsa", 2048],
      "RSA-4096": ["rsa", 4096],
    };
    expect([asymmetricKeyType, size]).toEqual(expected[key]);
    expect(asymmetricKeyDetails?.publicExponent ?? 65537n).toBe(65537n);
  });

  test("has its trust domain as its name, and is its own issuer", () => {
    expect(ofNode.subject).toBe("O=cluster.local");
    expect(ofNode.issuer).toBe("O=cluster.local");
    expect(ofNode.subjectAltName).toBe("URI:spiffe://cluster.local");
    expect(inHex(elementAt(certificate, [0, 3]))).toBe(inHex(elementAt(certificate, [0, 5])));
  });

  test("has the extensions of a CA, octet by octet", () => {
    const keyOctets = contentOf(elementAt(certificate, [0, 6, 1]));
    const keyIdentifier = createHash("sha256").update(keyOctets).digest("hex").slice(0, 40);
    const name = der(0x30, der(0x86, Buffer.from("spiffe://cluster.local")));
    const extensions = [
      hex("300e 0603551d0f 0101ff 0404 03020106"),
      hex("300f 0603551d13 0101ff 0405 30030101ff"),
      hex(`301d 0603551d0e 0416 0414 ${keyIdentifier}`),
      der(0x30, hex("0603551d11"), der(0x04, name)),
    ];
    expect(inHex(elementAt(certificate, [0, 7]))).toBe(inHex(der(0xa3, der(0x30, ...extensions))));
    expect(authority.id).toBe(keyIdentifier);
  });

  test("is valid from two minutes before its publication until its retirement", () => {
    expect(ofNode.validFromDate).toEqual(new Date("2026-02-28T23:58:00.000Z"));
    expect(ofNode.validToDate).toEqual(tenDays.retiresAt);
  });

  test("has a positive serial of 17 octets", () => {
    expect(inHex(elementAt(certificate, [0, 1]))).toMatch(/^021101[0-9a-f]{32}$/);
  });

  test("is its only root, and its private key is the certificate's", async () => {
    expect(authority.roots.map(inHex)).toEqual([inHex(certificate)]);
    expect(authority.intermediates).toEqual([]);
    const pkcs8 = Buffer.from(await crypto.subtle.exportKey("pkcs8", extractablePrivateKey));
    const privateKey = createPrivateKey({ key: pkcs8, format: "der", type: "pkcs8" });
    expect(ofNode.checkPrivateKey(privateKey)).toBe(true);
  });
});

test("only the subject cuts a trust domain that is longer than an organization name", async () => {
  const name = `${"a".repeat(100)}.example`;
  const { authority } = await NewAuthority.create(trustDomain(name), "EC-P256", tenDays);
  const certificate = new X509Certificate(authority.certificate.der);
  expect(certificate.subject).toBe(`O=${"a".repeat(64)}`);
  expect(certificate.subjectAltName).toBe(`URI:spiffe://${name}`);
});

test("two authorities of one trust domain have different keys, ids and serials", async () => {
  const make = () => NewAuthority.create(clusterLocal, "EC-P256", tenDays);
  const [one, other] = [(await make()).authority, (await make()).authority];
  expect(one.id).not.toBe(other.id);
  const serial = (a: typeof one) => inHex(a.certificate.toBeSigned.serialNumber);
  expect(serial(one)).not.toBe(serial(other));
});

test("refuses a schedule that ends before it begins, and one with fractions of a second", async () => {
  const backwards = schedule("2026-03-02T00:00:00.000Z", "2026-03-01T00:00:00.000Z");
  const fraction = schedule("2026-03-01T00:00:00.500Z", "2026-03-02T00:00:00.000Z");
  for (const phases of [backwards, fraction]) {
    await expect(NewAuthority.create(clusterLocal, "EC-P256", phases)).rejects.toThrow();
  }
});
