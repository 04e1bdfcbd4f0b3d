import "reflect-metadata/lite";
import { X509Crl, X509Certificate as XCertificate } from "@peculiar/x509";
import { expect, test } from "vitest";
import type { AuthorityKey } from "../../../../src/pki/authority/new-authority.ts";
import { SigningAuthority } from "../../../../src/pki/authority/signing-authority.ts";
import { DerReader } from "../../../../src/pki/encoding/der-reader.ts";
import { CrlEntries } from "../../../../src/pki/x509/crl/crl-entries.ts";
import {
  type CrlContent,
  RevocationReason,
} from "../../../../src/pki/x509/crl/crl-to-be-signed.ts";
import { lintCrl, UnsignedCrl } from "../../../../src/pki/x509/crl/signed-crl.ts";
import { flipBit, inHex } from "../../../testkit/der/mutation.ts";
import { createTestIssuer } from "../../../testkit/pki/certificates.ts";
import { readCrl } from "../../../testkit/pki/crls.ts";

const revokedAt = new Date("2026-03-02T10:00:00Z");
const entry = (serialNumber: string, reason: RevocationReason = "unspecified") => ({
  serialNumber,
  revokedAt,
  reason,
});
const contentOf = (revoked: readonly CrlContent["revoked"][number][]): CrlContent => ({
  thisUpdate: new Date("2026-03-02T12:00:00Z"),
  nextUpdate: new Date("2026-03-03T12:00:00Z"),
  number: Uint8Array.of(0, 0x91, 7),
  revoked,
});
const everyReason = Object.keys(RevocationReason.codes).map((reason, i) =>
  entry(`01${"ab".repeat(15)}0${i}`, reason as RevocationReason),
);
const issuer = await createTestIssuer();

test.each<AuthorityKey>(["EC-P256", "EC-P384", "RSA-2048"])(
  "an authority of %s signs a CRL that another library reads and verifies",
  async (key) => {
    const signer = await createTestIssuer(key);
    const der = await UnsignedCrl.sign(signer, UnsignedCrl.prepare(signer, contentOf(everyReason)));
    expect(readCrl(der)).toEqual({
      issuer: "O=cluster.local",
      thisUpdate: new Date("2026-03-02T12:00:00Z"),
      nextUpdate: new Date("2026-03-03T12:00:00Z"),
      number: 0x9107n,
      entries: everyReason.map(({ serialNumber, reason }) => [
        serialNumber,
        reason === "unspecified" ? undefined : RevocationReason.codes[reason],
      ]),
    });
    const { publicKey } = new XCertificate(signer.authority.certificate.der);
    expect(await new X509Crl(der).verify({ publicKey })).toBe(true);
  },
);

test("an empty CRL has no list of certificates", async () => {
  const der = await UnsignedCrl.sign(issuer, UnsignedCrl.prepare(issuer, contentOf([])));
  expect(readCrl(der).entries).toEqual([]);
  expect(findings(UnsignedCrl.prepare(issuer, contentOf([])).toBeSigned, contentOf([]))).toEqual(
    [],
  );
});

const findings = (toBeSigned: Uint8Array<ArrayBuffer>, content: CrlContent) =>
  lintCrl(toBeSigned, { ...content, issuer: issuer.fields });

test("the linter finds any one changed bit", () => {
  const content = contentOf([entry("01ab"), entry("00f1", "keyCompromise")]);
  const { toBeSigned } = UnsignedCrl.prepare(issuer, content);
  expect(findings(toBeSigned, content)).toEqual([]);
  for (let bit = 0; bit < toBeSigned.length * 8; bit++) {
    expect(findings(flipBit(toBeSigned, bit), content), `bit ${bit}`).not.toEqual([]);
  }
});

test("the linter finds an entry that nobody decided", () => {
  const { toBeSigned } = UnsignedCrl.prepare(issuer, contentOf([entry("01ab"), entry("00f1")]));
  expect(findings(toBeSigned, contentOf([entry("01ab")]))).toHaveLength(1);
});

test("a CRL of 10,000 entries has the bytes that the lengths of DER need", async () => {
  const many = Array.from({ length: 10_000 }, (_, i) =>
    entry(`01${i.toString(16).padStart(32, "0")}`, "superseded"),
  );
  const der = await UnsignedCrl.sign(issuer, UnsignedCrl.prepare(issuer, contentOf(many)));
  expect(inHex(der.subarray(0, 2))).toBe("3083");
  expect(CrlEntries.parse(der).serialNumbers.size).toBe(10_000);
});

test.each<[string, Partial<CrlContent>]>([
  ["ends before it begins", { nextUpdate: new Date("2026-03-02T11:00:00Z") }],
  ["has fractions of a second", { thisUpdate: new Date("2026-03-02T12:00:00.250Z") }],
  ["has no number", { number: Uint8Array.of(0) }],
  ["has a number of 21 octets", { number: new Uint8Array(21).fill(1) }],
  ["names a certificate twice", { revoked: [entry("01ab"), entry("01ab", "superseded")] }],
  ["has a negative serial number", { revoked: [entry("ff01")] }],
  ["has the serial number zero", { revoked: [entry("00")] }],
  ["has a serial number that is not minimal", { revoked: [entry("0001")] }],
  ["has a serial number of 21 octets", { revoked: [entry("01".repeat(21))] }],
])("refuses to sign a CRL that %s", async (_, change) => {
  const unsigned = UnsignedCrl.prepare(issuer, { ...contentOf([]), ...change });
  await expect(UnsignedCrl.sign(issuer, unsigned)).rejects.toThrow("refusing to sign");
});

test("refuses the bytes of another authority's CRL", async () => {
  const other = await createTestIssuer();
  await expect(UnsignedCrl.sign(other, UnsignedCrl.prepare(issuer, contentOf([])))).rejects.toThrow(
    "§5.2.1",
  );
});

test("refuses to sign for an authority without cRLSign", async () => {
  const { authority } = issuer;
  const { certificate } = authority;
  const usage = certificate.toBeSigned.extensions.keyUsage;
  if (!usage) throw new Error("no key usage");
  const octets = Buffer.from(usage.value.rest());
  const keyCertSign = Uint8Array.from(octets.with(3, 0x04));
  const extensions = {
    ...certificate.toBeSigned.extensions,
    keyUsage: { ...usage, value: new DerReader(keyCertSign) },
  };
  const toBeSigned = { ...certificate.toBeSigned, extensions };
  const mayNot = { ...authority, certificate: { ...certificate, toBeSigned } };
  const without = SigningAuthority.open(mayNot, issuer.signingKey);
  await expect(
    UnsignedCrl.sign(without, UnsignedCrl.prepare(without, contentOf([]))),
  ).rejects.toThrow("cRLSign");
});
