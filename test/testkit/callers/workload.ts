import "reflect-metadata/lite";
import { Pkcs10CertificateRequestGenerator, SubjectAlternativeNameExtension } from "@peculiar/x509";
import { Pem } from "../../../src/pki/encoding/pem.ts";
import { type PostQuantumKey, signatureAlgorithms } from "../../../src/pki/signature-algorithm.ts";
import { CertificationRequest } from "../../../src/pki/x509/request-to-be-signed.ts";

/** A kind of key, and its signature algorithm for a CSR. */
interface WorkloadKey {
  readonly name: string;
  readonly hash: string;
  readonly namedCurve?: string;
  readonly modulusLength?: number;
  readonly publicExponent?: Uint8Array<ArrayBuffer>;
}

export const p256: WorkloadKey = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };

export const rsa2048 = {
  name: "RSASSA-PKCS1-v1_5",
  modulusLength: 2048,
  publicExponent: new Uint8Array([1, 0, 1]),
  hash: "SHA-256",
} satisfies WorkloadKey;

/** A new key of a workload, and its CSR. Runs wherever WebCrypto does. */
export interface Workload {
  readonly csrPem: string;
  /** SubjectPublicKeyInfo, DER. */
  readonly spki: Uint8Array;
}

/** @param subject The subject of the CSR, which no certificate may repeat. */
export async function createWorkload(
  parameters: WorkloadKey = p256,
  subject = "O=mallory,CN=root",
): Promise<Workload> {
  const keys = (await crypto.subtle.generateKey(parameters, true, [
    "sign",
    "verify",
  ])) as CryptoKeyPair;
  const names = [{ type: "url" as const, value: "spiffe://evil.test/ns/a/sa/b" }];
  const csr = await Pkcs10CertificateRequestGenerator.create({
    name: subject,
    keys,
    signingAlgorithm: parameters,
    extensions: [new SubjectAlternativeNameExtension(names, true)],
  });
  const spki = await crypto.subtle.exportKey("spki", keys.publicKey);
  return { csrPem: `${csr.toString("pem")}\n`, spki: new Uint8Array(spki as ArrayBuffer) };
}

/** A CSR with an ML-DSA key. @param shorten How many octets its signature lacks. */
export async function createPostQuantumCsr(name: PostQuantumKey, shorten = 0): Promise<string> {
  const pair = (await crypto.subtle.generateKey({ name }, true, [
    "sign",
    "verify",
  ])) as CryptoKeyPair;
  const spki = new Uint8Array(
    (await crypto.subtle.exportKey("spki", pair.publicKey)) as ArrayBuffer,
  );
  const info = CertificationRequest.info(new Uint8Array([0x30, 0]), spki, []);
  const signature = new Uint8Array(await crypto.subtle.sign({ name }, pair.privateKey, info));
  const [algorithm] = signatureAlgorithms[name];
  if (!algorithm) throw new Error("no algorithm");
  const der = CertificationRequest.signed(info, algorithm.identifier, signature.slice(shorten));
  return Pem.format("CERTIFICATE REQUEST", der);
}

/** The CSR with another last octet, which is part of its signature. */
export function withBrokenSignature(csrPem: string): string {
  const [, body = ""] = /-----\n([^-]+)\n-----/.exec(csrPem) ?? [];
  const binary = atob(body.replaceAll("\n", ""));
  const last = String.fromCharCode(binary.charCodeAt(binary.length - 1) ^ 1);
  const broken = btoa(binary.slice(0, -1) + last).replace(/.{64}/g, "$&\n");
  return `-----BEGIN CERTIFICATE REQUEST-----\n${broken}\n-----END CERTIFICATE REQUEST-----\n`;
}
