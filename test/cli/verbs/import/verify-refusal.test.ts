import "reflect-metadata/lite";
import { createPrivateKey, generateKeyPairSync, type KeyObject } from "node:crypto";
import * as x509 from "@peculiar/x509";
import { expect, test } from "vitest";
import { OperatorError } from "../../../../src/foundation/errors.ts";
import { hex } from "../../../testkit/der/mutation.ts";
import {
  type CaDepartures,
  createCa,
  generateKeys,
  isCa,
  materialOf,
  maySign,
  now,
  rsa,
} from "../../../testkit/pki/plugged-in.ts";
import { linesFor, requireRefused, requireWarned, verify } from "./verifying.ts";

const root = await createCa("O=mesh,CN=root");
const upper = await createCa("O=mesh,CN=upper", { issuer: root });
const stranger = await createCa("O=stranger");

const uriName = (value: string) =>
  new x509.SubjectAlternativeNameExtension([{ type: "url", value }]);
const extendedFor = (...usages: x509.ExtendedKeyUsage[]) =>
  new x509.ExtendedKeyUsageExtension(usages);
const { serverAuth, clientAuth } = x509.ExtendedKeyUsage;
const extension = (id: string, value: string, isCritical = false) =>
  new x509.Extension(`2.5.29.${id}`, isCritical, hex(value));
const having = (...extensions: readonly x509.Extension[]): CaDepartures => ({
  extensions: [isCa(), maySign, ...extensions],
});

const noCa = "not authorized to sign other certificates: it is no CA";
const signsLists = new x509.KeyUsagesExtension(x509.KeyUsageFlags.cRLSign);
const unknown = new x509.Extension("1.2.3.4", true, hex("0500"));

test.for<[string, CaDepartures, string]>([
  ["no CA", { extensions: [maySign] }, noCa],
  ["CA:false", { extensions: [new x509.BasicConstraintsExtension(false), maySign] }, noCa],
  ["no keyCertSign", { extensions: [isCa(), signsLists] }, "no keyCertSign"],
  ["an end in the past", { notAfter: new Date(now.getTime() - 1000) }, "has expired at 2026-05-31"],
  ["an end at this instant", { notAfter: now }, "has expired"],
  ["a beginning to come", { notBefore: new Date(now.getTime() + 1000) }, "is not valid before"],
  ["serverAuth only", having(extendedFor(serverAuth)), "extended key usage"],
  ["clientAuth only", having(extendedFor(clientAuth)), "extended key usage"],
  ["an unknown critical extension", having(unknown), "critical extension 1.2.3.4"],
  [
    "a SPIFFE ID of another trust domain",
    having(uriName("spiffe://cluster.local.evil.test")),
    "another trust domain than cluster.local",
  ],
  [
    "critical names of which Go reads none",
    having(extension("17", "300588032a0304", true)),
    "critical names of rare kinds alone, which Go refuses",
  ],
  ["no subject", {}, "has no subject"],
])("refuses an authority with %s", async ([name, departures, sentence]) => {
  const subject = name === "no subject" ? "" : "O=departing";
  const ca = await createCa(subject, { issuer: root, ...departures });
  const lines = await linesFor(materialOf(ca, { roots: root.pem }));
  expect(lines).toEqual([expect.stringContaining(sentence)]);
  expect(lines[0]).toMatch(/^ca-cert\.pem, certificate 1 \(/);
});

const unreadable = "not a certificate that verifiers agree on";

test.each([
  ["basic constraints of two values", [maySign, extension("19", "30030101ff0500", true)]],
  ["a URI that is none", [isCa(), maySign, uriName("spiffe://a b")]],
  ["policies that are not DER", [isCa(), maySign, extension("32", "3080")]],
  ["a key usage that is none", [isCa(), extension("15", "0500", true)]],
])("refuses %s in an authority and in a root, which some verifiers cannot read", async (_, all) => {
  const ca = await createCa("O=unreadable", { extensions: all });
  await requireRefused(materialOf(ca), unreadable);
  await requireRefused(materialOf(root, { roots: root.pem + ca.pem }), unreadable);
});

test.for([
  ["another usage", extension("37", "300606042a030405"), "extended key usage"],
  ["any usage alone", extension("37", "30060604551d2500"), "anyExtendedKeyUsage does not count"],
  ["critical policies", extension("32", "3006300406022a03", true), "critical certificate policies"],
  ["an explicit policy", extension("36", "3003800100"), "requires an explicit policy"],
  ["names that do not parse", extension("17", "3003820180"), unreadable],
  ["no name", extension("17", "3000"), unreadable],
  ["a URI without a scheme", extension("17", "3003860161"), unreadable],
  ["an IP address of three octets", extension("17", "30058703010203"), unreadable],
  ["usages that do not parse", extension("37", "3000"), unreadable],
  ["policies that do not parse", extension("32", "0500"), unreadable],
] as const)("refuses an intermediate with %s", async ([, departing, sentence]) => {
  const ca = await createCa("O=low", { issuer: root, ...having(departing) });
  await requireRefused(materialOf(ca, { roots: root.pem }), sentence);
});

test.for([
  ["padded with zero bits", "0303000600"],
  ["without a bit", "030100"],
  ["with more unused bits than there are", "03020906"],
] as const)("refuses key usage %s", async ([, value]) => {
  const extensions = [isCa(), extension("15", value, true)];
  const ca = await createCa("O=low", { issuer: root, extensions });
  await requireRefused(materialOf(ca, { roots: root.pem }), unreadable);
});

test("refuses an intermediate without key usage, and warns of a root without", async () => {
  const bare = await createCa("O=bare root", { extensions: [isCa()] });
  const below = await createCa("O=below", { issuer: bare });
  await requireWarned(materialOf(below, { roots: bare.pem }), "Python 3.13 refuse it");
  const ca = await createCa("O=low", { issuer: root, extensions: [isCa()] });
  await requireRefused(materialOf(ca, { roots: root.pem }), "has no key usage");
});

test("refuses a negative serial number, and one of 21 octets below the root", async () => {
  // Nobody verifies the signature of an anchor, so that one octet can be changed.
  const der = new Uint8Array(new x509.X509Certificate(upper.pem).rawData);
  der[der.findIndex((octet, i) => octet === 0x02 && der[i + 1] === 9) + 2] = 0x81;
  const pem = x509.PemConverter.encode(der, "CERTIFICATE");
  await requireRefused(materialOf({ ...upper, pem }), "a negative serial number");
  const serialNumber = "01".repeat(21);
  const long = await createCa("O=low", { issuer: root, serialNumber });
  await requireRefused(materialOf(long, { roots: root.pem }), "more than 20 octets");
  await verify(materialOf(await createCa("O=long", { serialNumber })));
});

test("repeats no control characters of a subject", async () => {
  const evil = await createCa("O=\u001b[2Jevil\u202e\u0007", { issuer: stranger });
  await requireRefused(materialOf(evil), "(O=?[2Jevil?)");
});

test("refuses more than eight certificates in a file, and more than eight roots in all", async () => {
  const nine = root.pem.repeat(9);
  const many = "root-cert.pem: holds 9 certificates; the limit is 8";
  await requireRefused(materialOf(root, { roots: nine }), many);
  const others = await Promise.all(Array.from({ length: 8 }, (_, i) => createCa(`O=${i}`)));
  const material = materialOf(root, { roots: root.pem });
  const combined = { name: "combined.pem", text: others.map(({ pem }) => pem).join("") };
  await requireRefused(
    { ...material, roots: [...material.roots, combined] },
    "root-cert.pem and combined.pem: hold 9 roots; the limit is 8",
  );
});

test("refuses a file of certificates that holds anything else, or none", async () => {
  const failed = "ca-cert.pem: failed to parse cert PEM:";
  const withKey = materialOf({ ...root, pem: root.pem + root.keyPem });
  expect((await linesFor(withKey))[0]).toBe(`${failed} holds a block of PRIVATE KEY`);
  const words = materialOf({ ...root, pem: "certificate" });
  await requireRefused(words, `${failed} there is no certificate`);
  const chain = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
  const bogus = "cert-chain.pem, certificate 1: failed to parse cert PEM";
  await requireRefused(materialOf(root, { chain }), bogus);
});

test("reports every fault at once, each line with its file", async () => {
  const material = materialOf({ pem: "x", keyPem: "y" }, { chain: "z", roots: "r" });
  const files = (await linesFor(material)).map((line) => line.split(/[:,]/)[0]);
  expect(files).toEqual(["ca-cert.pem", "cert-chain.pem", "root-cert.pem", "ca-key.pem"]);
});

test.each<[string, CaDepartures]>([
  ["without basicConstraints", { extensions: [maySign] }],
  ["without any extension", { extensions: [], lacksKeyIdentifiers: true }],
  ["that says it is none", { extensions: [new x509.BasicConstraintsExtension(false), maySign] }],
])("a root of version 3 %s is no CA", async (_, departures) => {
  const bare = await createCa("O=mesh,CN=bare", departures);
  const ca = await createCa("O=mesh", { issuer: bare });
  const material = materialOf(ca, { chain: ca.pem, roots: bare.pem });
  await requireRefused(material, /is no CA, so it is no root$/);
});

const rsaRoot = await createCa("O=rsa", { keys: await generateKeys(rsa(2048)) });

test("refuses keys that no authority may have", async () => {
  const weak = await createCa("O=weak", { keys: await generateKeys(rsa(1024)) });
  await requireRefused(materialOf(weak), "(modulus)");
  const besideRoot = materialOf(root, { roots: root.pem + weak.pem });
  await requireRefused(besideRoot, /^root-cert.pem, certificate 2: .*\(modulus\)/);
  const exponent3 = { ...rsa(2048), publicExponent: new Uint8Array([3]) };
  const exponent = await createCa("O=three", { keys: await generateKeys(exponent3) });
  await requireRefused(materialOf(exponent), "(exponent)");
});

test.each([
  ["of the same kind", stranger],
  ["of another kind", rsaRoot],
])("refuses the key of another certificate %s", async (_, { keyPem }) => {
  const material = materialOf({ pem: root.pem, keyPem });
  await requireRefused(material, "ca-key.pem: the cert does not match the key");
});

test("refuses a key that only claims the certificate's public key, or its modulus", async () => {
  const contradicting = "its numbers contradict each other";
  const ec = generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey;
  const keyPem = forged(keyOf(root), ec, "d");
  await requireRefused(materialOf({ pem: root.pem, keyPem }), contradicting);
  const other = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey;
  const rsaPem = forged(other, keyOf(rsaRoot), "n");
  await requireRefused(materialOf({ pem: rsaRoot.pem, keyPem: rsaPem }), contradicting);
});

const keyOf = ({ keyPem }: typeof root): KeyObject => createPrivateKey(keyPem);

/** A key with one number of another: by PKCS#8, since Node makes no key of such a JWK. */
function forged(key: KeyObject, other: KeyObject, name: "d" | "n"): string {
  const der = key.export({ type: "pkcs8", format: "der" });
  const [own, foreign] = [key, other].map((each) =>
    Buffer.from(each.export({ format: "jwk" })[name] ?? "", "base64url"),
  );
  if (own && foreign) foreign.copy(der, der.indexOf(own));
  return x509.PemConverter.encode(der, "PRIVATE KEY");
}

test("refuses a key with any changed octet, or reads the same key", async () => {
  for (const ca of [root, rsaRoot]) {
    const der = await crypto.subtle.exportKey("pkcs8", ca.keys.privateKey);
    const same = Buffer.from(der).toString("base64");
    for (let i = 0; i < der.byteLength; i += ca === root ? 5 : 89) {
      const changed = new Uint8Array(der.slice(0));
      changed[i] = (changed[i] ?? 0) ^ (1 << (i % 8));
      const keyPem = x509.PemConverter.encode(changed, "PRIVATE KEY");
      expect([same, "refused"]).toContain(await keyOrRefusal({ pem: ca.pem, keyPem }));
    }
  }
});

async function keyOrRefusal(ca: { readonly pem: string; readonly keyPem: string }) {
  try {
    const { privateKey } = await verify(materialOf(ca));
    return Buffer.from(await crypto.subtle.exportKey("pkcs8", privateKey)).toString("base64");
  } catch (error) {
    if (error instanceof OperatorError) return "refused";
    throw error;
  }
}
