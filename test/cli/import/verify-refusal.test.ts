import "reflect-metadata/lite";
import { createPrivateKey, generateKeyPairSync, X509Certificate } from "node:crypto";
import * as x509 from "@peculiar/x509";
import { expect, test } from "vitest";
import type { PluggedInMaterial } from "../../../src/cli/import/plugged-in-material.ts";
import { verifyPluggedIn } from "../../../src/cli/import/verify.ts";
import { OperatorError } from "../../../src/foundation/operator-error.ts";
import { clusterLocal } from "../../testkit/pki/certificates.ts";
import {
  type CaDepartures,
  createCa,
  generateKeys,
  isCa,
  materialOf,
  maySign,
  now,
  operatorErrorOf,
  rsa,
} from "../../testkit/pki/plugged-in.ts";

const root = await createCa("O=mesh,CN=root");
const upper = await createCa("O=mesh,CN=upper", { issuer: root });
const stranger = await createCa("O=stranger");

const linesFor = (material: PluggedInMaterial) =>
  operatorErrorOf(() => verifyPluggedIn(material, clusterLocal, now));

const uriName = (value: string) =>
  new x509.SubjectAlternativeNameExtension([{ type: "url", value }]);
const { serverAuth, clientAuth } = x509.ExtendedKeyUsage;
const rsaRoot = await createCa("O=rsa", { keys: await generateKeys(rsa(2048)) });
const sha1Keys = await generateKeys(rsa(2048, "SHA-1"));

test.for<[string, CaDepartures, string]>([
  ["no CA", { extensions: [maySign] }, "not authorized to sign other certificates: it is no CA"],
  [
    "CA:false",
    { extensions: [new x509.BasicConstraintsExtension(false), maySign] },
    "not authorized to sign other certificates: it is no CA",
  ],
  [
    "no keyCertSign",
    { extensions: [isCa(), new x509.KeyUsagesExtension(x509.KeyUsageFlags.cRLSign)] },
    "no keyCertSign",
  ],
  ["an end in the past", { notAfter: new Date(now.getTime() - 1000) }, "has expired at 2026-05-31"],
  ["an end at this instant", { notAfter: now }, "has expired"],
  ["a beginning to come", { notBefore: new Date(now.getTime() + 1000) }, "is not valid before"],
  [
    "serverAuth only",
    { extensions: [isCa(), new x509.ExtendedKeyUsageExtension([serverAuth])] },
    "extended key usage",
  ],
  [
    "clientAuth only",
    { extensions: [isCa(), new x509.ExtendedKeyUsageExtension([clientAuth], true)] },
    "extended key usage",
  ],
  [
    "an unknown critical extension",
    { extensions: [isCa(), new x509.Extension("1.2.3.4", true, new Uint8Array([5, 0]))] },
    "critical extension 1.2.3.4",
  ],
  [
    "a SPIFFE ID of another trust domain",
    { extensions: [isCa(), uriName("spiffe://cluster.local.evil.test")] },
    "another trust domain than cluster.local",
  ],
  ["no subject", {}, "has no subject"],
])("refuses an authority with %s", async ([name, departures, sentence]) => {
  const subject = name === "no subject" ? "" : "O=departing";
  const ca = await createCa(subject, { issuer: root, ...departures });
  const lines = await linesFor(materialOf(ca, { roots: root.pem }));
  expect(lines).toEqual([expect.stringContaining(sentence)]);
  expect(lines[0]).toMatch(/^ca-cert\.pem, certificate 1 \(/);
});

const constraints = (hex: string) => new x509.Extension("2.5.29.30", true, Buffer.from(hex, "hex"));
const ia5 = (text: string) => `86${octet(text.length)}${Buffer.from(text).toString("hex")}`;
const octet = (number: number) => number.toString(16).padStart(2, "0");
const tagged = (tag: string, content: string) => `${tag}${octet(content.length / 2)}${content}`;
const subtrees = (tag: string, ...hosts: readonly string[]) =>
  tagged("30", tagged(tag, hosts.map((host) => tagged("30", ia5(host))).join("")));
const permitted = (...hosts: readonly string[]) => constraints(subtrees("a0", ...hosts));
const excluded = (...hosts: readonly string[]) => constraints(subtrees("a1", ...hosts));

test.for([
  ["another host", permitted("elsewhere.test")],
  ["a host above, as only Go reads it", permitted("local")],
  ["hosts below", permitted(".cluster.local")],
  ["the host excluded", excluded("other.test", "cluster.local")],
  ["a host above excluded", excluded("local")],
  ["hosts below a label excluded", excluded(".local")],
  ["everything excluded", excluded("")],
  ["upper case excluded", excluded("CLUSTER.local")],
  ["what is no NameConstraints", constraints("0500")],
] as const)("refuses name constraints that exclude the trust domain: %s", async ([, extension]) => {
  const ca = await createCa("O=constrained", { extensions: [isCa(), maySign, extension] });
  const leading = await createCa("O=below", { issuer: ca });
  const [own, root] = [materialOf(ca), materialOf(leading, { roots: ca.pem })];
  // OpenSSL takes a root with constraints that it cannot read for no authority's at all.
  const isRead = new X509Certificate(ca.pem).ca;
  for (const material of isRead ? [own, root] : [own]) {
    const lines = await linesFor(material);
    expect(lines).toEqual([
      expect.stringContaining("name constraints exclude the trust domain cluster.local"),
    ]);
  }
});

test.each([
  ["name constraints that are cut off", constraints("3003a00130")],
  [
    "basic constraints of two values",
    new x509.Extension("2.5.29.19", true, Buffer.from("30030101ff0500", "hex")),
  ],
  ["a URI that is none", uriName("spiffe://a b")],
  [
    "policies that are not DER",
    new x509.Extension("2.5.29.32", false, new Uint8Array([0x30, 0x80])),
  ],
])(
  "refuses %s in an authority and in a root, because some verifiers cannot read it",
  async (_, extension) => {
    const others = extension.type === "2.5.29.19" ? [maySign] : [isCa(), maySign];
    const ca = await createCa("O=unreadable", { extensions: [...others, extension] });
    for (const material of [materialOf(ca), materialOf(root, { roots: root.pem + ca.pem })]) {
      expect(await linesFor(material)).toEqual([
        expect.stringContaining("not a certificate that verifiers agree on"),
      ]);
    }
  },
);

test("refuses a root whose key usage OpenSSL does not read", async () => {
  const keyUsage = new x509.Extension("2.5.29.15", true, new Uint8Array([0x05, 0x00]));
  const ca = await createCa("O=unreadable", { extensions: [isCa(), keyUsage] });
  expect(await linesFor(materialOf(root, { roots: root.pem + ca.pem }))).toEqual([
    expect.stringContaining("root-cert.pem, certificate 2"),
  ]);
});

test.for([
  ["the host", permitted("other.test", "cluster.local")],
  ["hosts below local", permitted(".local")],
  ["another host excluded", excluded("elsewhere.test", ".cluster.local")],
  ["names of other kinds", constraints("3010a00e300c820a6578616d706c652e6f72")],
] as const)("warns of name constraints that admit it: %s", async ([, extension]) => {
  const ca = await createCa("O=constrained", { extensions: [isCa(), maySign, extension] });
  const { warnings } = await verifyPluggedIn(materialOf(ca), clusterLocal, now);
  expect(warnings).toEqual([expect.stringContaining("has name constraints")]);
});

test("refuses a broken chain, and says where", async () => {
  const authority = await createCa("O=mesh,CN=authority", { issuer: upper });
  const at = (title: string) =>
    new RegExp(`^${title} .*cannot verify the cert.*no certificate has`);
  expect(await linesFor(materialOf(authority, { roots: root.pem }))).toEqual([
    expect.stringMatching(at("ca-cert.pem, certificate 1")),
  ]);
  expect(await linesFor(materialOf(authority, { chain: upper.pem, roots: stranger.pem }))).toEqual([
    expect.stringMatching(at("cert-chain.pem, certificate 1")),
  ]);
  // A root in the chain proposes itself; only the roots are trusted.
  const withRoot = { chain: upper.pem + root.pem, roots: stranger.pem };
  expect(await linesFor(materialOf(authority, withRoot))).toHaveLength(1);
  expect(await linesFor(materialOf(authority, { chain: upper.pem + root.pem }))).toHaveLength(1);
});

test("refuses an issuer with the right name that did not sign", async () => {
  const impostor = await createCa(root.name);
  const lines = await linesFor(materialOf(upper, { roots: impostor.pem }));
  expect(lines).toEqual([expect.stringContaining("has the name of its issuer, but did not sign")]);
  expect(await linesFor(materialOf(impostor, { roots: root.pem }))).toHaveLength(1);
});

test("refuses a self-signed authority that is not among the roots", async () => {
  const lines = await linesFor(materialOf(stranger, { roots: root.pem }));
  expect(lines).toEqual([expect.stringContaining("cannot verify the cert with the provided root")]);
});

test("refuses an authority key identifier that is not the issuer's", async () => {
  const identified = await createCa("O=identified", {
    extensions: [isCa(), maySign, new x509.SubjectKeyIdentifierExtension("aabb")],
  });
  const ca = await createCa("O=below", {
    issuer: identified,
    extensions: [isCa(), maySign, new x509.AuthorityKeyIdentifierExtension("ccdd")],
  });
  expect(await linesFor(materialOf(ca, { roots: identified.pem }))).toEqual([
    expect.stringContaining("its authority key identifier is not the issuer's"),
  ]);
});

test("refuses a chain longer than its path lengths", async () => {
  for (const [rootLength, upperLength] of [
    [0, undefined],
    [undefined, 0],
  ]) {
    const top = await createCa("O=top", { extensions: [isCa(rootLength), maySign] });
    const middle = await createCa("O=middle", {
      issuer: top,
      extensions: [isCa(upperLength), maySign],
    });
    const ca = await createCa("O=low", { issuer: middle, extensions: [isCa(0), maySign] });
    const lines = await linesFor(materialOf(ca, { chain: middle.pem, roots: top.pem }));
    expect(lines).toEqual([expect.stringContaining("its path length of 0 is less than")]);
  }
});

test("refuses a weak hash below the root, and takes it in the root", async () => {
  const sha1Root = await createCa("O=sha1", { keys: sha1Keys, hash: "SHA-1" });
  await verifyPluggedIn(materialOf(sha1Root), clusterLocal, now);
  const ca = await createCa("O=below", { issuer: sha1Root, hash: "SHA-1" });
  expect(await linesFor(materialOf(ca, { roots: sha1Root.pem }))).toEqual([
    expect.stringContaining("is signed with SHA-1"),
  ]);
});

test("refuses keys that no authority may have", async () => {
  const weak = await createCa("O=weak", { keys: await generateKeys(rsa(1024)) });
  expect(await linesFor(materialOf(weak))).toEqual([expect.stringContaining("(modulus)")]);
  expect(await linesFor(materialOf(root, { roots: root.pem + weak.pem }))).toEqual([
    expect.stringMatching(/^root-cert.pem, certificate 2: .*\(modulus\)/),
  ]);
  const exponent3 = { ...rsa(2048), publicExponent: new Uint8Array([3]) };
  const exponent = await createCa("O=three", { keys: await generateKeys(exponent3) });
  expect(await linesFor(materialOf(exponent))).toEqual([expect.stringContaining("(exponent)")]);
});

test("refuses the key of another certificate, of the same kind and of another", async () => {
  for (const { keyPem } of [stranger, rsaRoot]) {
    const lines = await linesFor(materialOf({ pem: root.pem, keyPem }));
    expect(lines).toEqual([expect.stringContaining("ca-key.pem: the cert does not match the key")]);
  }
});

test("refuses a key that only claims the certificate's public key", async () => {
  const jwk = await crypto.subtle.exportKey("jwk", root.keys.privateKey);
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const { d } = privateKey.export({ format: "jwk" });
  const forged = createPrivateKey({ key: { ...jwk, d } as never, format: "jwk" });
  const keyPem = forged.export({ type: "pkcs8", format: "pem" }).toString();
  const lines = await linesFor(materialOf({ pem: root.pem, keyPem }));
  expect(lines).toEqual([expect.stringContaining("its numbers contradict each other")]);
});

test("refuses an RSA key whose primes are not its modulus's", async () => {
  const jwkOf = ({ privateKey }: CryptoKeyPair) => crypto.subtle.exportKey("jwk", privateKey);
  const [{ n, e }, other] = [await jwkOf(rsaRoot.keys), await jwkOf(await generateKeys(rsa(2048)))];
  const forged = createPrivateKey({ key: { ...other, n, e } as never, format: "jwk" });
  const keyPem = forged.export({ type: "pkcs1", format: "pem" }).toString();
  const lines = await linesFor(materialOf({ pem: rsaRoot.pem, keyPem }));
  expect(lines).toEqual([expect.stringContaining("its numbers contradict each other")]);
});

test("repeats no control characters of a subject", async () => {
  const name = "O=\u001b[2Jevil\u202e\u0007";
  const lines = await linesFor(materialOf(await createCa(name, { issuer: stranger })));
  expect(lines).toEqual([expect.stringContaining("(O=?[2Jevil?)")]);
});

test("refuses a certificate with any changed octet by an OperatorError, never by a fault", async () => {
  const der = new x509.X509Certificate(upper.pem).rawData;
  for (let i = 0; i < der.byteLength; i += 7) {
    const changed = new Uint8Array(der.slice(0));
    changed[i] = (changed[i] ?? 0) ^ (1 << (i % 8));
    const pem = x509.PemConverter.encode(changed, "CERTIFICATE");
    const asAuthority = materialOf({ ...upper, pem }, { roots: root.pem });
    const asRoot = materialOf(root, { roots: root.pem + pem });
    for (const material of [asAuthority, asRoot]) {
      expect((await linesFor(material)).length).toBeGreaterThan(0);
    }
  }
});

test("refuses a key with any changed octet, or reads the same key", async () => {
  for (const ca of [root, rsaRoot]) {
    const der = await crypto.subtle.exportKey("pkcs8", ca.keys.privateKey);
    const same = Buffer.from(der).toString("base64");
    for (let i = 0; i < der.byteLength; i += ca === root ? 2 : 29) {
      const changed = new Uint8Array(der.slice(0));
      changed[i] = (changed[i] ?? 0) ^ (1 << (i % 8));
      const keyPem = x509.PemConverter.encode(changed, "PRIVATE KEY");
      expect([same, "refused"]).toContain(await keyOrRefusal({ pem: ca.pem, keyPem }));
    }
  }
});

async function keyOrRefusal(ca: { readonly pem: string; readonly keyPem: string }) {
  try {
    const { privateKey } = await verifyPluggedIn(materialOf(ca), clusterLocal, now);
    return Buffer.from(await crypto.subtle.exportKey("pkcs8", privateKey)).toString("base64");
  } catch (error) {
    if (error instanceof OperatorError) return "refused";
    throw error;
  }
}

test("refuses a root that is not self-signed or is no CA", async () => {
  expect(await linesFor(materialOf(upper, { roots: upper.pem + root.pem }))).toEqual([
    expect.stringMatching(/^root-cert.pem, certificate 1 .* is not self-signed/),
  ]);
  const leaf = await createCa("O=leaf", { extensions: [maySign] });
  expect(await linesFor(materialOf(root, { roots: root.pem + leaf.pem }))).toEqual([
    expect.stringMatching(/^root-cert.pem, certificate 2 .* is no CA/),
  ]);
});

test("refuses more than eight certificates in a file, and more than eight roots in all", async () => {
  const nine = root.pem.repeat(9);
  expect(await linesFor(materialOf(root, { roots: nine }))).toEqual([
    "root-cert.pem: holds 9 certificates; the limit is 8",
  ]);
  const others = await Promise.all(Array.from({ length: 8 }, (_, i) => createCa(`O=${i}`)));
  const material = materialOf(root, { roots: root.pem });
  const combined = { name: "combined.pem", text: others.map(({ pem }) => pem).join("") };
  expect(await linesFor({ ...material, roots: [...material.roots, combined] })).toEqual([
    "root-cert.pem and combined.pem: hold 9 roots; the limit is 8",
  ]);
});

test("refuses a file of certificates that holds anything else, or none", async () => {
  const [label] = await linesFor(materialOf({ ...root, pem: root.pem + root.keyPem }));
  expect(label).toBe("ca-cert.pem: failed to parse cert PEM: holds a block of PRIVATE KEY");
  expect(await linesFor(materialOf({ ...root, pem: "certificate" }))).toEqual([
    "ca-cert.pem: failed to parse cert PEM: there is no certificate",
  ]);
  const bogus = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
  expect(await linesFor(materialOf(root, { chain: bogus }))).toEqual([
    expect.stringContaining("cert-chain.pem, certificate 1: failed to parse cert PEM"),
  ]);
});

test("reports every fault at once, each line with its file", async () => {
  const material = materialOf({ pem: "x", keyPem: "y" }, { chain: "z", roots: upper.pem });
  const lines = await linesFor(material);
  const files = lines.map((line) => line.split(/[:,]/)[0]);
  expect(files).toEqual(["ca-cert.pem", "cert-chain.pem", "root-cert.pem", "ca-key.pem"]);
});
