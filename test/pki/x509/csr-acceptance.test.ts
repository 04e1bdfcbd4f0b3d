import "reflect-metadata/lite";
import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
} from "node:crypto";
import { readFileSync } from "node:fs";
import * as x509 from "@peculiar/x509";
import { expect, test } from "vitest";
import { der, hex, inHex } from "../../testkit/der/mutation.ts";
import { buildCsr, type CsrDepartures, csrPem, generateSigner } from "../../testkit/pki/csr.ts";
import { parseCsr } from "../../testkit/pki/csr-parsing.ts";

type Hash = "SHA-256" | "SHA-384" | "SHA-512";
const hashes: readonly Hash[] = ["SHA-256", "SHA-384", "SHA-512"];

const vector = (name: string): string =>
  readFileSync(new URL(`../../vectors/${name}.pem`, import.meta.url), "utf8");

test.each([
  ["pilot-agent-p256", "EC-P256"],
  ["pilot-agent-rsa2048", "RSA"],
  ["ztunnel-p256", "EC-P256"],
  ["rsa-without-null", "RSA"],
])("reads the CSR of %s as @peculiar/x509 does", async (name, algorithm) => {
  const pem = vector(`csr/${name}`);
  const key = await parseCsr(pem);
  expect(key.algorithm).toBe(algorithm);
  const oracle = new x509.Pkcs10CertificateRequest(pem);
  expect(inHex(key.spki)).toBe(inHex(new Uint8Array(oracle.publicKey.rawData)));
});

/** The content of the BIT STRING (RFC 5280 §4.1.2.7), from `node:crypto`'s own export. */
async function keyOctetsOf(spki: Uint8Array): Promise<string> {
  const key = createPublicKey({ key: Buffer.from(spki), format: "der", type: "spki" });
  const octets =
    key.asymmetricKeyType === "rsa" ? key.export({ type: "pkcs1", format: "der" }) : undefined;
  if (octets) return inHex(octets);
  const { crv, x = "", y } = key.export({ format: "jwk" });
  const coordinate = (text: string) => Buffer.from(text, "base64url").toString("hex");
  return crv === "Ed25519" ? coordinate(x) : `04${coordinate(x)}${coordinate(y ?? "")}`;
}

interface Request {
  readonly name: string;
  readonly algorithm: string;
  readonly make: (hash: Hash) => Promise<x509.Pkcs10CertificateRequest>;
}

const everything = [
  new x509.SubjectAlternativeNameExtension([{ type: "dns", value: "evil.example" }]),
  new x509.BasicConstraintsExtension(true, 3, true),
];

const create = (keys: CryptoKeyPair, hash: Hash) =>
  x509.Pkcs10CertificateRequestGenerator.create({
    name: "CN=evil.example, O=Evil\\, Inc., C=XX",
    keys,
    signingAlgorithm: { name: keys.privateKey.algorithm.name, hash },
    extensions: everything,
    attributes: [new x509.ChallengePasswordAttribute("secret")],
  });

async function ellipticCurve(namedCurve: string): Promise<Request["make"]> {
  const keys = await crypto.subtle.generateKey({ name: "ECDSA", namedCurve }, true, [
    "sign",
    "verify",
  ]);
  return (hash) => create(keys, hash);
}

/** One key, imported again for each hash. */
function rsa(key: KeyObject): Request["make"] {
  const name = "RSASSA-PKCS1-v1_5";
  const pkcs8 = key.export({ type: "pkcs8", format: "der" });
  const spki = createPublicKey(key).export({ type: "spki", format: "der" });
  return async (hash) => {
    const parameters = { name, hash };
    const privateKey = await crypto.subtle.importKey("pkcs8", pkcs8, parameters, true, ["sign"]);
    const publicKey = await crypto.subtle.importKey("spki", spki, parameters, true, ["verify"]);
    return create({ privateKey, publicKey }, hash);
  };
}

const newRsa = (modulusLength: number): KeyObject =>
  generateKeyPairSync("rsa", { modulusLength }).privateKey;

/** One of Istio's own: making so long a key is slow. */
const istioRsa4096 = createPrivateKey(vector("istio-cacerts/ca-key-alt"));

async function ed25519(): Promise<Request["make"]> {
  const keys = await crypto.subtle.generateKey("Ed25519", true, ["sign", "verify"]);
  return (hash) => create(keys as CryptoKeyPair, hash);
}

const requests: readonly Request[] = [
  { name: "P-256", algorithm: "EC-P256", make: await ellipticCurve("P-256") },
  { name: "P-384", algorithm: "EC-P384", make: await ellipticCurve("P-384") },
  { name: "P-521", algorithm: "EC-P521", make: await ellipticCurve("P-521") },
  { name: "RSA-2048", algorithm: "RSA", make: rsa(newRsa(2048)) },
  { name: "RSA-3072", algorithm: "RSA", make: rsa(newRsa(3072)) },
  { name: "RSA-4096", algorithm: "RSA", make: rsa(istioRsa4096) },
  { name: "Ed25519", algorithm: "Ed25519", make: await ed25519() },
];

test.each(requests.flatMap((request) => hashes.map((hash) => ({ ...request, hash }))))(
  "reads the $name key of a CSR that @peculiar/x509 signed with $hash",
  async ({ algorithm, make, hash }) => {
    const csr = await make(hash);
    const key = await parseCsr(csr.toString("pem"));
    expect(key.algorithm).toBe(algorithm);
    expect(inHex(key.spki)).toBe(inHex(new Uint8Array(csr.publicKey.rawData)));
    expect(inHex(key.keyOctets)).toBe(await keyOctetsOf(key.spki));
  },
);

const p256 = generateSigner("EC-P256");

const shapes: Record<string, CsrDepartures> = {
  "an empty subject": { subject: hex("3000") },
  "no attributes": { attributes: hex("a000") },
  "two attributes": { attributes: hex("a012 3007 0603550401 3100 3007 0603550402 3100") },
  "a subject whose text is not in its string type's alphabet": {
    subject: der(0x30, der(0x31, der(0x30, hex("0603550403"), der(0x13, hex("00ff2c2c"))))),
  },
  "a subject of 8 kB": {
    subject: der(0x30, der(0x31, der(0x30, hex("0603550403"), der(0x0c, Buffer.alloc(8192, "x"))))),
  },
};

test.each(Object.entries(shapes))("reads the key of a CSR with %s", async (_, departures) => {
  const key = await parseCsr(csrPem(buildCsr(p256, departures)));
  expect(inHex(key.spki)).toBe(inHex(p256.spki));
});
