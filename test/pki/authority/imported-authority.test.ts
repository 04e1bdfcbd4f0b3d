import "reflect-metadata/lite";
import { createHash, X509Certificate } from "node:crypto";
import * as x509 from "@peculiar/x509";
import { expect, test } from "vitest";
import {
  type OpenAuthority,
  SigningAuthority,
} from "../../../src/pki/authority/signing-authority.ts";
import { SignatureAlgorithm } from "../../../src/pki/signature-algorithm.ts";
import { webSigningKey } from "../../../src/pki/web-crypto.ts";
import { Leaf } from "../../../src/pki/x509/leaf/certificate-signer.ts";
import { SubjectPublicKey } from "../../../src/pki/x509/subject-public-key.ts";
import { childrenOf, elementAt, inHex, type Octets } from "../../testkit/der/mutation.ts";
import { oneDay, proved, tenDays, workload } from "../../testkit/pki/certificates.ts";
import { generateSigner, signatureIdentifier } from "../../testkit/pki/csr.ts";
import { createCa, generateKeys, isCa } from "../../testkit/pki/plugged-in.ts";

const spiffeId = workload("foo", "bar");
const publicKey = SubjectPublicKey.parse(generateSigner("EC-P256").spki);

/** An issuer whose certificate another implementation made. */
async function importedIssuer(
  name: string,
  extensions: readonly x509.Extension[],
  namedCurve = "P-256",
): Promise<OpenAuthority> {
  const keys = await generateKeys({ name: "ECDSA", namedCurve });
  const { pem } = await createCa(name, {
    keys,
    notBefore: tenDays.publishedFrom,
    notAfter: tenDays.retiresAt,
    extensions: [isCa(), ...extensions],
    lacksKeyIdentifiers: true,
  });
  const der = new Uint8Array(new X509Certificate(pem).raw);
  const certificates = { certificate: der, intermediates: [], roots: [der] };
  const authority = await SigningAuthority.create(certificates, tenDays);
  const algorithm = SignatureAlgorithm.of(authority.publicKey);
  return SigningAuthority.open(authority, webSigningKey(keys.privateKey, algorithm));
}

async function leafOf(issuer: OpenAuthority): Promise<Octets> {
  return Buffer.from(
    (await Leaf.issue(issuer, { spiffeId, publicKey, validity: oneDay, proof: proved })).der,
  );
}

const extensionOids = (leaf: Octets): string[] =>
  childrenOf(elementAt(leaf, [0, 7, 0])).map((extension) => inHex(elementAt(extension, [0])));

const istioOrder = [
  "0603551d0f",
  "0603551d25",
  "0603551d13",
  "0603551d0e",
  "0603551d23",
  "0603551d11",
  // The proof comes after Istio's.
  "06222a864886f71401be40937a82a35681e21482fe0381867882c00c8784c45181e0d369",
];

test("a leaf names an authority without a subject key identifier by the SHA-1 of its key", async () => {
  const issuer = await importedIssuer("O=imported", []);
  const leaf = await leafOf(issuer);
  expect(extensionOids(leaf)).toEqual(istioOrder);
  const authority = new X509Certificate(issuer.authority.certificate.der);
  const { keyId } = new x509.X509Certificate(leaf).getExtension(
    x509.AuthorityKeyIdentifierExtension,
  ) ?? { keyId: undefined };
  // The last 65 octets of a P-256 SubjectPublicKeyInfo are the point.
  const point = authority.publicKey.export({ type: "spki", format: "der" }).subarray(-65);
  expect(keyId).toBe(createHash("sha1").update(point).digest("hex"));
  expect(new X509Certificate(leaf).verify(authority.publicKey)).toBe(true);
  expect(new X509Certificate(leaf).checkIssued(authority)).toBe(true);
});

test("a leaf repeats the subject key identifier of its authority, however that was computed", async () => {
  for (const identifier of ["00112233445566778899aabbccddeeff00112233", "01", "ab".repeat(32)]) {
    const issuer = await importedIssuer("O=imported", [
      new x509.SubjectKeyIdentifierExtension(identifier),
    ]);
    const leaf = await leafOf(issuer);
    expect(extensionOids(leaf)).toEqual(istioOrder);
    const extension = new x509.X509Certificate(leaf).getExtension(
      x509.AuthorityKeyIdentifierExtension,
    );
    expect(extension?.keyId).toBe(identifier);
  }
});

test("a leaf repeats a subject of many parts octet by octet", async () => {
  const names = ["C=DE, O=Ünïcode\\, Inc., OU=a, OU=b, CN=imported CA, L=Köln", "CN=x"];
  for (const name of names) {
    const issuer = await importedIssuer(name, []);
    const leaf = await leafOf(issuer);
    const authority = Buffer.from(issuer.authority.certificate.der);
    expect(inHex(elementAt(leaf, [0, 3]))).toBe(inHex(elementAt(authority, [0, 5])));
  }
});

test("a P-521 authority signs with SHA-512", async () => {
  const issuer = await importedIssuer("O=imported", [], "P-521");
  const leaf = await leafOf(issuer);
  expect(inHex(elementAt(leaf, [1]))).toBe(inHex(signatureIdentifier["ecdsa-with-SHA512"]));
  const authority = new X509Certificate(issuer.authority.certificate.der);
  expect(new X509Certificate(leaf).verify(authority.publicKey)).toBe(true);
});

test("an Ed25519 authority signs with its one algorithm", () => {
  const { spki } = generateSigner("Ed25519");
  expect(SignatureAlgorithm.of(SubjectPublicKey.parse(spki)).name).toBe("Ed25519");
});
