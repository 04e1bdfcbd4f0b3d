import "reflect-metadata/lite";
import { createPublicKey } from "node:crypto";
import { readFileSync } from "node:fs";
import * as x509 from "@peculiar/x509";
import { expect, test } from "vitest";
import { der, hex, inHex } from "../../testkit/der/mutation.ts";
import {
  buildCsr,
  type CsrDepartures,
  csrPem,
  generateSigner,
  type SignerKind,
} from "../../testkit/pki/csr.ts";
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

const curves = { "EC-P256": "P-256", "EC-P384": "P-384", "EC-P521": "P-521" };

/** What WebCrypto has to know of a key to sign with it. */
function parametersOf(kind: SignerKind, hash: Hash) {
  if (kind === "Ed25519") return { name: kind };
  if (kind === "RSA-2048" || kind === "RSA-3072") return { name: "RSASSA-PKCS1-v1_5", hash };
  return { name: "ECDSA", namedCurve: curves[kind] };
}

/** A CSR of `@peculiar/x509` that asks for more than a key. */
async function requestOf(kind: SignerKind, hash: Hash): Promise<x509.Pkcs10CertificateRequest> {
  const { privateKey, spki } = generateSigner(kind);
  const parameters = parametersOf(kind, hash);
  const pkcs8 = privateKey.export({ type: "pkcs8", format: "der" });
  const keys = {
    privateKey: await crypto.subtle.importKey("pkcs8", pkcs8, parameters, true, ["sign"]),
    publicKey: await crypto.subtle.importKey("spki", spki, parameters, true, ["verify"]),
  };
  return x509.Pkcs10CertificateRequestGenerator.create({
    name: "CN=evil.example, O=Evil\\, Inc., C=XX",
    keys,
    signingAlgorithm: { name: parameters.name, hash },
    extensions: [
      new x509.SubjectAlternativeNameExtension([{ type: "dns", value: "evil.example" }]),
      new x509.BasicConstraintsExtension(true, 3, true),
    ],
    attributes: [new x509.ChallengePasswordAttribute("secret")],
  });
}

const kinds = ["EC-P256", "EC-P384", "EC-P521", "RSA-2048", "RSA-3072", "Ed25519"] as const;

test.each(kinds.flatMap((kind) => hashes.map((hash) => ({ kind, hash }))))(
  "reads the $kind key of a CSR that @peculiar/x509 signed with $hash",
  async ({ kind, hash }) => {
    const csr = await requestOf(kind, hash);
    const key = await parseCsr(csr.toString("pem"));
    expect(key.algorithm).toBe(kind.replace(/^(RSA)-.*/, "$1"));
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
