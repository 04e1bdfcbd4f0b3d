import "reflect-metadata/lite";
import { createHash, X509Certificate } from "node:crypto";
import * as x509 from "@peculiar/x509";
import { describe, expect, test } from "vitest";
import type { OpenAuthority } from "../../../src/pki/authority/signing-authority.ts";
import { SpiffeId } from "../../../src/pki/spiffe-id.ts";
import { Leaf } from "../../../src/pki/x509/leaf/certificate-signer.ts";
import { lint } from "../../../src/pki/x509/leaf/internal/lint.ts";
import { SubjectPublicKey } from "../../../src/pki/x509/subject-public-key.ts";
import { contentOf, der, elementAt, hex, inHex, type Octets } from "../../testkit/der/mutation.ts";
import { createTestIssuer, oneDay, proved, workload } from "../../testkit/pki/certificates.ts";
import {
  generateSigner,
  type SignatureName,
  type SignerKind,
  signatureIdentifier,
} from "../../testkit/pki/csr.ts";
import { parseCsr } from "../../testkit/pki/csr-parsing.ts";

const authorityKeys = ["EC-P256", "EC-P384", "RSA-2048", "RSA-4096"] as const;
type AuthorityKey = (typeof authorityKeys)[number];
const issuers = Object.fromEntries(
  await Promise.all(authorityKeys.map(async (key) => [key, await createTestIssuer(key)])),
) as Record<AuthorityKey, OpenAuthority>;

const signerKinds: readonly SignerKind[] = [
  "EC-P256",
  "EC-P384",
  "EC-P521",
  "RSA-2048",
  "RSA-3072",
  "Ed25519",
];
const subjectKeys: Record<string, Octets> = Object.fromEntries(
  signerKinds.map((kind) => [kind, generateSigner(kind).spki]),
);
// The authority's own key saves generating another one of 4096 bits.
subjectKeys["RSA-4096"] = Buffer.from(issuers["RSA-4096"].authority.publicKey.spki);

const spiffeId = workload("foo", "bar");

const issue = async (issuer: OpenAuthority, spki: Octets): Promise<Octets> => {
  const publicKey = SubjectPublicKey.parse(spki);
  return Buffer.from(
    (await Leaf.issue(issuer, { spiffeId, publicKey, validity: oneDay, proof: proved })).der,
  );
};

const keyIdentifierOf = (spki: Octets): string => {
  const keyOctets = contentOf(elementAt(spki, [1]));
  return createHash("sha256").update(keyOctets).digest("hex").slice(0, 40);
};

const pairs = authorityKeys.flatMap((authorityKey) =>
  Object.keys(subjectKeys).map((subjectKey) => ({ authorityKey, subjectKey })),
);

describe.each(pairs)(
  "a leaf of $authorityKey for $subjectKey",
  async ({ authorityKey, subjectKey }) => {
    const issuer = issuers[authorityKey];
    const spki = subjectKeys[subjectKey] ?? hex("");
    const leaf = await issue(issuer, spki);
    const authority = new X509Certificate(issuer.authority.certificate.der);

    test("verifies under the authority with node:crypto", () => {
      const certificate = new X509Certificate(leaf);
      expect(certificate.verify(authority.publicKey)).toBe(true);
      expect(certificate.checkIssued(authority)).toBe(true);
      expect(certificate.subject ?? "").toBe("");
      expect(certificate.issuer).toBe("O=cluster.local");
      expect([certificate.validFromDate, certificate.validToDate]).toEqual([
        oneDay.notBefore,
        oneDay.notAfter,
      ]);
      const subjectKeyOfNode = certificate.publicKey.export({ type: "spki", format: "der" });
      expect(inHex(subjectKeyOfNode)).toBe(inHex(spki));
    });

    test("has Istio's extensions, octet by octet and in Istio's order", () => {
      const keyUsage = subjectKey.startsWith("RSA") ? "030205a0" : "03020780";
      const authorityKeyIdentifier = keyIdentifierOf(Buffer.from(issuer.authority.publicKey.spki));
      const identityProof =
        "0622 2a864886f714 01 be40 937a 82a356 81e214 82fe03 818678 82c00c 8784c451 81e0d369";
      const provedAt = inHex(Buffer.from("20260301123456Z"));
      const issuerHash = createHash("sha256").update("https://a.test").digest("hex").slice(0, 32);
      const name = der(0x30, der(0x86, Buffer.from(spiffeId)));
      const extensions = [
        hex(`300e 0603551d0f 0101ff 0404 ${keyUsage}`),
        hex("301d 0603551d25 0416 3014 06082b06010505070301 06082b06010505070302"),
        hex("300c 0603551d13 0101ff 0402 3000"),
        hex(`301d 0603551d0e 0416 0414 ${keyIdentifierOf(spki)}`),
        hex(`301f 0603551d23 0418 3016 8014 ${authorityKeyIdentifier}`),
        der(0x30, hex("0603551d11 0101ff"), der(0x04, name)),
        hex(`304e ${identityProof} 0428 3026 180f ${provedAt} 0410 ${issuerHash} 010100`),
      ];
      expect(inHex(elementAt(leaf, [0, 7]))).toBe(inHex(der(0xa3, der(0x30, ...extensions))));
    });

    test("names the signature algorithm of the authority's key, inside and outside", () => {
      const names: Record<AuthorityKey, SignatureName> = {
        "EC-P256": "ecdsa-with-SHA256",
        "EC-P384": "ecdsa-with-SHA384",
        "RSA-2048": "sha256WithRSAEncryption",
        "RSA-4096": "sha256WithRSAEncryption",
      };
      const identifier = inHex(signatureIdentifier[names[authorityKey]]);
      expect(inHex(elementAt(leaf, [0, 2]))).toBe(identifier);
      expect(inHex(elementAt(leaf, [1]))).toBe(identifier);
    });
  },
);

test("serial numbers are positive, of 17 octets, and distinct", async () => {
  const issuer = issuers["EC-P256"];
  const publicKey = SubjectPublicKey.parse(subjectKeys["EC-P384"] ?? hex(""));
  const serialNumbers = new Set<string>();
  for (let i = 0; i < 100; i++) {
    const leaf = await Leaf.issue(issuer, { spiffeId, publicKey, validity: oneDay, proof: proved });
    const serialNumber = elementAt(Buffer.from(leaf.der), [0, 1]);
    expect(inHex(serialNumber)).toBe(`0211${leaf.serialNumber}`);
    expect(contentOf(serialNumber)[0]).toBe(0x01);
    expect(new X509Certificate(leaf.der).serialNumber.toLowerCase()).toBe(leaf.serialNumber);
    serialNumbers.add(leaf.serialNumber);
  }
  expect(serialNumbers.size).toBe(100);
});

test("nothing of a CSR but its key reaches the leaf", async () => {
  const keys = await crypto.subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, true, [
    "sign",
    "verify",
  ]);
  const csr = await x509.Pkcs10CertificateRequestGenerator.create({
    name: "CN=evil-name, O=evil-organization",
    keys,
    signingAlgorithm: { name: "ECDSA", hash: "SHA-384" },
    extensions: [
      new x509.SubjectAlternativeNameExtension([
        { type: "dns", value: "evil.example" },
        { type: "url", value: "spiffe://cluster.local/ns/evil/sa/evil" },
      ]),
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign, true),
      new x509.Extension("1.2.3.4.5", true, Buffer.from("evil-extension")),
    ],
    attributes: [new x509.ChallengePasswordAttribute("evil-password")],
  });
  const publicKey = await parseCsr(csr.toString("pem"));
  const issuer = issuers["EC-P256"];
  const leaf = await Leaf.issue(issuer, { spiffeId, publicKey, validity: oneDay, proof: proved });
  expect(Buffer.from(leaf.der).toString("latin1")).not.toContain("evil");
  expect(new X509Certificate(leaf.der).subjectAltName).toBe(`URI:${spiffeId}`);
  expect(new x509.X509Certificate(leaf.der).extensions.map(({ type }) => type)).not.toContain(
    "1.2.3.4.5",
  );
});

describe("DNS names beside the SPIFFE ID", () => {
  const dnsNames = ["b.foo.mesh.test", "api.test"];
  const publicKey = SubjectPublicKey.parse(generateSigner("EC-P256").spki);
  const content = { spiffeId, publicKey, validity: oneDay, proof: proved };

  test("come after it, in the order of the rule", async () => {
    const { der: leaf } = await Leaf.issue(issuers["EC-P256"], { ...content, dnsNames });
    const { subjectAltName } = new X509Certificate(leaf);
    expect(subjectAltName).toBe(`URI:${spiffeId}, DNS:b.foo.mesh.test, DNS:api.test`);
    expect(SpiffeId.isNamedBy(subjectAltName, spiffeId)).toBe(true);
  });

  test.each(["*.foo.test", "10.0.0.1", "A.test", "a..b", ""])(
    "are none such as %j",
    async (name) => {
      const issuing = Leaf.issue(issuers["EC-P256"], { ...content, dnsNames: [name] });
      await expect(issuing).rejects.toThrow("RFC 5280 §4.2.1.6 names of hosts");
    },
  );

  test.each<[string, readonly string[] | undefined]>([
    ["fewer", ["b.foo.mesh.test"]],
    ["none", undefined],
    ["others", ["b.foo.mesh.test", "evil.test"]],
    ["another order", ["api.test", "b.foo.mesh.test"]],
    ["more", [...dnsNames, "c.test"]],
  ])("are those that were decided: not %s", async (_, decided) => {
    const signer = issuers["EC-P256"];
    const { der: leaf } = await Leaf.issue(signer, { ...content, dnsNames });
    const toBeSigned = elementAt(Buffer.from(leaf), [0]);
    const keyIdentifier = contentOf(elementAt(Buffer.from(leaf), [0, 7, 0, 3, 1, 0]));
    const intent = { kind: "leaf", ...content, keyIdentifier, issuer: signer.fields } as const;
    expect(lint(toBeSigned, { ...intent, dnsNames })).toEqual([]);
    expect(lint(toBeSigned, { ...intent, dnsNames: decided })).toEqual([
      expect.stringContaining("exactly one URI, the SPIFFE ID"),
    ]);
  });

  test.each([
    [`DNS:api.test, URI:${spiffeId}`],
    [`URI:${spiffeId}, URI:${spiffeId}`],
    [`URI:${spiffeId}x, DNS:api.test`],
    [`URI:${spiffeId}, IP Address:10.0.0.1`],
    [`URI:${spiffeId}, DNS:"api, URI:x"`],
    [undefined],
  ])("are the only names that clients take beside it: %j", (names) => {
    expect(SpiffeId.isNamedBy(names, spiffeId)).toBe(false);
  });
});
