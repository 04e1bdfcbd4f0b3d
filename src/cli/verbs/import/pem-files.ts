import { printable, quoted } from "../../terminal/text.ts";
import "reflect-metadata/lite";
import { createPrivateKey, type KeyObject, type X509Certificate } from "node:crypto";
import * as x509 from "@peculiar/x509";
import { CaError, OperatorError } from "../../../foundation/errors.ts";
import { readWithOpenSsl } from "../../../node/node-crypto-provider.ts";
import { Base64 } from "../../../pki/encoding/base64.ts";
import type { Bytes } from "../../../pki/encoding/bytes.ts";
import { DerError } from "../../../pki/encoding/der-reader.ts";
import { Pem, PemError } from "../../../pki/encoding/pem.ts";
import { CaCertificate, type CertificationPath } from "../../../pki/path/certification-path.ts";
import { VerifiedAuthority } from "../../../pki/path/verified-authority.ts";
import { SignatureAlgorithm } from "../../../pki/signature-algorithm.ts";
import { CrlEntries } from "../../../pki/x509/crl/crl-entries.ts";
import type { SubjectPublicKey } from "../../../pki/x509/subject-public-key.ts";
import type { Source } from "./ca-entries.ts";

/** A certificate from an operator's files, read by three parsers that must all accept it. */
export interface ImportedCertificate extends CaCertificate {
  /** The certificate as OpenSSL parsed it. */
  readonly verifier: X509Certificate;
}

/**
 * Reads every certificate of a PEM file, in its order.
 * @throws OperatorError for a block of another kind, for none or more than eight certificates, for one that the CA
 *   could not parse later, and for a key that no authority may have.
 */
export function readCertificates(source: Source): readonly ImportedCertificate[] {
  const blocks = blocksOf(source);
  const other = blocks.find(({ label }) => label !== "CERTIFICATE");
  if (other) {
    throw new OperatorError(
      `${source.name}: failed to parse cert PEM: holds a block of ${other.label}`,
    );
  }
  if (blocks.length === 0) {
    throw new OperatorError(`${source.name}: failed to parse cert PEM: there is no certificate`);
  }
  if (blocks.length > VerifiedAuthority.maximumCertificates) {
    const [count, most] = [blocks.length, VerifiedAuthority.maximumCertificates];
    throw new OperatorError(`${source.name}: holds ${count} certificates; the limit is ${most}`);
  }
  return blocks.map(({ der }, i) => readCertificate(der, `${source.name}, certificate ${i + 1}`));
}

/** Reads one certificate. @param place Its name in errors. @throws OperatorError as {@link readCertificates} */
export function readCertificate(der: Bytes, place: string): ImportedCertificate {
  try {
    const { subject } = new x509.X509Certificate(der);
    const title = `${place} (${printable(subject) || "no subject"})`;
    const { verifier } = readWithOpenSsl(der);
    return { ...CaCertificate.parse(der, title), verifier };
  } catch (error) {
    throw new OperatorError(`${place}: ${unreadable(error)}`);
  }
}

/** Says why no authority can have this certificate. */
function unreadable(error: unknown): string {
  if (error instanceof CaError && error.refusal.reason === "subject-key-unacceptable") {
    const accepted = "P-256, P-384, P-521, RSA of 2048 to 4096 bits with exponent 65537, Ed25519";
    return `has a key of the wrong kind or strength (${error.refusal.fault}); accepted are ${accepted}`;
  }
  const detail = error instanceof DerError ? `: ${error.message}` : "";
  return `failed to parse cert PEM: not a certificate that verifiers agree on${detail}`;
}

/** The encodings that istiod reads, by their PEM labels. */
const encodings: ReadonlyMap<string, "pkcs1" | "sec1" | "pkcs8"> = new Map([
  ["RSA PRIVATE KEY", "pkcs1"],
  ["EC PRIVATE KEY", "sec1"],
  ["PRIVATE KEY", "pkcs8"],
]);

/**
 * Reads the only private key of a PEM file.
 * @throws OperatorError for none, several, or an encrypted one. It names the kind of content, never the content.
 */
export function readPrivateKey(source: Source): KeyObject {
  const refuse = (why: string): OperatorError =>
    new OperatorError(`${source.name}: failed to parse private key PEM: ${why}`);
  // `openssl ecparam -genkey` writes a block with the curve before the key.
  const blocks = blocksOf(source).filter(({ label }) => label !== "EC PARAMETERS");
  const [block, another] = blocks;
  if (!block) throw refuse("there is no PEM block");
  if (blocks.some(isEncrypted)) {
    const command = `openssl pkey -in ${quoted(source.path ?? "KEY.pem")} -out DECRYPTED.pem`;
    throw refuse(`the key is encrypted; decrypt it first: \`${command}\``);
  }
  if (another) throw refuse(`it holds ${blocks.length} PEM blocks, not one key`);
  const type = encodings.get(block.label);
  if (!type) throw refuse(`it is a block of ${block.label}`);
  try {
    return createPrivateKey({ key: Buffer.from(block.der), format: "der", type });
  } catch {
    throw refuse(`the block is not a valid ${block.label}`);
  }
}

const isEncrypted = (block: DecodedBlock): boolean =>
  block.isEncrypted || block.label === "ENCRYPTED PRIVATE KEY";

/**
 * Imports the key as an extractable `CryptoKey`, for the signature algorithm of this public key. It does not compare
 * the two.
 * @throws OperatorError for a key whose numbers contradict each other, which OpenSSL accepts.
 */
export async function importExtractable(
  key: KeyObject,
  publicKey: SubjectPublicKey,
  { name }: Source,
): Promise<CryptoKey> {
  const { importParameters } = SignatureAlgorithm.of(publicKey);
  const misfit = new OperatorError(
    `${name}: failed to parse private key PEM: its numbers contradict each other`,
  );
  if (key.asymmetricKeyType === "rsa" && !rsaPartsFit(key)) throw misfit;
  try {
    // A key has one form as JWK, and several as PKCS#8.
    const jwk = key.export({ format: "jwk" });
    return await crypto.subtle.importKey("jwk", jwk, importParameters, true, ["sign"]);
  } catch {
    throw misfit;
  }
}

/**
 * Whether the numbers of RFC 8017 §3.2 are consistent. OpenSSL signs with some keys that are not;
 * BoringSSL, which opens the key later, refuses them.
 */
function rsaPartsFit(key: KeyObject): boolean {
  const jwk = key.export({ format: "jwk" });
  const number = (part: string | undefined): bigint =>
    BigInt(`0x0${Buffer.from(part ?? "", "base64url").toString("hex")}`);
  const [n, e, d] = [number(jwk.n), number(jwk.e), number(jwk.d)];
  const [p, q] = [number(jwk.p), number(jwk.q)];
  if (p < 2n || q < 2n || p * q !== n) return false;
  const exponentFits = (prime: bigint, exponent: string | undefined): boolean =>
    (d * e) % (prime - 1n) === 1n && number(exponent) === d % (prime - 1n);
  return exponentFits(p, jwk.dp) && exponentFits(q, jwk.dq) && (number(jwk.qi) * q) % p === 1n;
}

/**
 * Reads the CRLs of Istio's `ca-crl.pem`. Their signatures are not verified.
 * @throws OperatorError for a file that holds anything else, or nothing.
 */
export function readCrls(source: Source): readonly CrlEntries[] {
  const blocks = blocksOf(source);
  if (blocks.length === 0) throw new OperatorError(`${source.name}: failed to parse CRL PEM`);
  return blocks.map((block, i) => readCrl(block, `${source.name}, CRL ${i + 1}`));
}

function readCrl({ label, der }: DecodedBlock, place: string): CrlEntries {
  try {
    if (label === "X509 CRL") return CrlEntries.parse(der);
  } catch (error) {
    if (!(error instanceof DerError)) throw error;
  }
  throw new OperatorError(`${place}: failed to parse CRL PEM`);
}

/** Requires that no CRL names a certificate of the path. @throws OperatorError with a line for each revoked one. */
export function requireNotRevoked(
  path: CertificationPath,
  crls: readonly CrlEntries[],
  { name }: Source,
): void {
  const revoked = path.filter((certificate) => CrlEntries.revoke(certificate, crls));
  if (revoked.length === 0) return;
  throw new OperatorError(
    revoked.map(({ title }) => `${title}: is revoked, says ${name}`).join("\n"),
  );
}

interface DecodedBlock {
  readonly label: string;
  /** Whether its headers mark it as encrypted (RFC 1421 §4.6.1.1); then `der` is empty. */
  readonly isEncrypted: boolean;
  readonly der: Bytes;
}

const header = /^[A-Za-z-]{1,40}:.*$/gm;

/**
 * Decodes the blocks of a PEM file, with headers or without.
 * @throws OperatorError as {@link Pem.blocks}, and for a body that is not base64.
 */
function blocksOf({ name, text }: Source): readonly DecodedBlock[] {
  try {
    return Pem.blocks(text).map(({ label, body }, i) =>
      blockOf(label, body, `${name}: PEM block ${i + 1}`),
    );
  } catch (error) {
    if (error instanceof PemError) throw new OperatorError(`${name}: ${error.message}`);
    throw error;
  }
}

function blockOf(label: string, body: string, name: string): DecodedBlock {
  if (/^Proc-Type:.*ENCRYPTED/m.test(body)) {
    return { label, isEncrypted: true, der: new Uint8Array(0) };
  }
  const der = Base64.parse(body.replace(header, "").replaceAll(/\s/g, ""));
  if (!der || der.length === 0) throw new OperatorError(`${name} is not base64`);
  return { label, isEncrypted: false, der };
}
