import "reflect-metadata/lite";
import { randomBytes } from "node:crypto";
import { copyFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import * as x509 from "@peculiar/x509";
import type { PluggedInMaterial } from "../../../src/cli/verbs/import/ca-entries.ts";
import { operatorRefusalOf } from "../refusal.ts";

/** An instant within the validity of every certificate of this file. */
export const now = new Date("2026-06-01T00:00:00.000Z");

/** A CA made for a test. */
export interface TestCa {
  readonly name: string;
  readonly keys: CryptoKeyPair;
  readonly pem: string;
  readonly keyPem: string;
}

/** Departures from a valid authority. */
export interface CaDepartures {
  readonly issuer?: Pick<TestCa, "name" | "keys">;
  /** Replaces the issuer's own name in the certificate. */
  readonly issuerName?: string;
  readonly keys?: CryptoKeyPair;
  readonly notBefore?: Date;
  readonly notAfter?: Date;
  readonly extensions?: readonly x509.Extension[];
  readonly hash?: string;
  /** In hexadecimal: the content octets. */
  readonly serialNumber?: string;
  /** Leaves out the key identifiers, as Istio's EC samples do. */
  readonly lacksKeyIdentifiers?: boolean;
}

const p256 = { name: "ECDSA", namedCurve: "P-256" };

export const rsa = (modulusLength: number, hash = "SHA-256") => ({
  name: "RSASSA-PKCS1-v1_5",
  modulusLength,
  publicExponent: new Uint8Array([1, 0, 1]),
  hash,
});

export const generateKeys = (
  algorithm: EcKeyGenParams | RsaHashedKeyGenParams = p256,
): Promise<CryptoKeyPair> => crypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);

export const isCa = (pathLength?: number): x509.Extension =>
  new x509.BasicConstraintsExtension(true, pathLength, true);

export const maySign: x509.Extension = new x509.KeyUsagesExtension(
  x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign,
  true,
);

/** Makes an authority, self-signed unless it has an issuer. */
export async function createCa(name: string, departures: CaDepartures = {}): Promise<TestCa> {
  const { issuer, hash = "SHA-256", extensions = [isCa(), maySign] } = departures;
  const keys = departures.keys ?? (await generateKeys());
  const signer = issuer?.keys ?? keys;
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber: departures.serialNumber ?? `01${randomBytes(8).toString("hex")}`,
    subject: name,
    issuer: departures.issuerName ?? issuer?.name ?? name,
    notBefore: departures.notBefore ?? new Date("2026-01-01T00:00:00.000Z"),
    notAfter: departures.notAfter ?? new Date("2036-01-01T00:00:00.000Z"),
    signingAlgorithm: { name: signer.privateKey.algorithm.name, hash },
    publicKey: keys.publicKey,
    signingKey: signer.privateKey,
    extensions: [
      ...extensions,
      ...(departures.lacksKeyIdentifiers ? [] : await keyIdentifiers(keys, signer, extensions)),
    ],
  });
  const pkcs8 = await crypto.subtle.exportKey("pkcs8", keys.privateKey);
  const keyPem = x509.PemConverter.encode(pkcs8, "PRIVATE KEY");
  return { name, keys, pem: `${certificate.toString("pem")}\n`, keyPem: `${keyPem}\n` };
}

/** The key identifiers that the extensions lack. */
async function keyIdentifiers(
  keys: CryptoKeyPair,
  signer: CryptoKeyPair,
  extensions: readonly x509.Extension[],
): Promise<x509.Extension[]> {
  const identifiers = [
    await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    await x509.AuthorityKeyIdentifierExtension.create(signer.publicKey),
  ];
  return identifiers.filter(({ type }) => !extensions.some((each) => each.type === type));
}

/** The material that a `cacerts` directory would hold. */
export function materialOf(
  authority: Pick<TestCa, "pem" | "keyPem">,
  { chain, roots }: { readonly chain?: string; readonly roots?: string } = {},
): PluggedInMaterial {
  const source = (name: string, text: string | undefined) => (text ? [{ name, text }] : []);
  return {
    certificate: { name: "ca-cert.pem", text: authority.pem },
    privateKey: { name: "ca-key.pem", text: authority.keyPem },
    chain: source("cert-chain.pem", chain),
    roots: source("root-cert.pem", roots),
  };
}

/** The lines of the OperatorError that the work throws. Every other outcome fails the test. */
export async function operatorErrorOf(work: () => unknown): Promise<readonly string[]> {
  return (await operatorRefusalOf(work)).message.split("\n");
}

/** Writes these files into a folder. */
export async function writeFolder(
  folder: string,
  files: Readonly<Record<string, string>>,
): Promise<string> {
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
  return folder;
}

/** Writes a `cacerts` folder of a CA. By default it is its own root, and its chain. */
export const writeCacerts = (
  folder: string,
  ca: Pick<TestCa, "pem" | "keyPem">,
  { chain = ca.pem, roots = ca.pem }: { readonly chain?: string; readonly roots?: string } = {},
): Promise<string> =>
  writeFolder(folder, {
    "ca-cert.pem": ca.pem,
    "ca-key.pem": ca.keyPem,
    "cert-chain.pem": chain,
    "root-cert.pem": roots,
  });

/** Copies vectors into a folder, under the names that Istio gives them. */
export async function copyVectors(
  folder: string,
  vectors: Readonly<Record<string, string>>,
): Promise<string> {
  for (const [name, vector] of Object.entries(vectors)) {
    await copyFile(join("test/vectors", vector), join(folder, name));
  }
  return folder;
}

/** Istio's own test data as `cacerts` directories. Its second EC authority has no key. */
export const vectorFolders: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "istio-cacerts": cacerts(""),
  "istio-cacerts, second generation": cacerts("-alt"),
  "istio-cacerts-ec": {
    "ca-cert.pem": "istio-cacerts-ec/ecc-int-cert.pem",
    "ca-key.pem": "istio-cacerts-ec/ecc-int-key.pem",
    "cert-chain.pem": "istio-cacerts-ec/ecc-int-cert-chain.pem",
    "root-cert.pem": "istio-cacerts-ec/ecc-root-cert.pem",
  },
};

function cacerts(generation: string): Record<string, string> {
  return {
    "ca-cert.pem": `istio-cacerts/ca-cert${generation}.pem`,
    "ca-key.pem": `istio-cacerts/ca-key${generation}.pem`,
    "cert-chain.pem": `istio-cacerts/cert-chain${generation}.pem`,
    "root-cert.pem": `istio-cacerts/root-cert${generation}.pem`,
  };
}

/** Istio's third generation: it shares the root of the second, and its key is not the certificate's. */
export const strangersKey: Readonly<Record<string, string>> = {
  ...cacerts("-alt-2"),
  "root-cert.pem": "istio-cacerts/root-cert-alt.pem",
};
