import "reflect-metadata/lite";
import type { KeyObject, X509Certificate } from "node:crypto";
import * as x509 from "@peculiar/x509";
import { CaError } from "../../foundation/errors.ts";
import { OperatorError } from "../../foundation/operator-error.ts";
import { parseForeignAuthority } from "../../pki/authority/foreign-authority.ts";
import { type Bytes, bytesEqual } from "../../pki/encoding/bytes.ts";
import { DerError } from "../../pki/encoding/der-reader.ts";
import type { Certificate } from "../../pki/x509/certificate.ts";
import { parseSubjectPublicKey, type SubjectPublicKey } from "../../pki/x509/subject-public-key.ts";
import { printable } from "../terminal/printable.ts";
import { readWithOpenSsl } from "./openssl-reading.ts";
import { pemBlocks } from "./pem-blocks.ts";
import type { Source } from "./plugged-in-material.ts";

/** The claims of a certificate; `undefined` for an absent extension. */
export interface Claims {
  readonly isAuthority: boolean;
  /** How many authorities may stand below it. */
  readonly pathLength: number | undefined;
  readonly maySignCertificates: boolean | undefined;
  readonly extendedKeyUsages: readonly string[] | undefined;
  readonly spiffeIds: readonly string[];
  /** The value of the extension, DER. */
  readonly nameConstraints: Bytes | undefined;
  /** Object identifiers. */
  readonly criticalExtensions: readonly string[];
  /** The hash of its signature; the algorithm's name for Ed25519. */
  readonly signatureHash: string;
}

/** A certificate from an operator's files, read by three parsers that must all accept it. */
export interface ImportedCertificate extends Certificate {
  /** For the operator: `cacerts/cert-chain.pem, certificate 2 (CN=Intermediate CA, O=Istio)`. */
  readonly title: string;
  readonly publicKey: SubjectPublicKey;
  /** OpenSSL's view of it. */
  readonly verifier: X509Certificate;
  /** OpenSSL's view of its key, which must be on its curve. */
  readonly verifyingKey: KeyObject;
  readonly claims: Claims;
}

/** The limit of a sealed record. */
export const maximumCertificates = 8;

/**
 * Every certificate of a file, in its order.
 *
 * @throws OperatorError for a block of another kind, and for none or more than eight certificates. Also for
 *   one that the CA could not parse later, and for a key that no authority may have.
 */
export function readCertificates(source: Source): readonly ImportedCertificate[] {
  const blocks = pemBlocks(source);
  const other = blocks.find(({ label }) => label !== "CERTIFICATE");
  if (other) {
    throw new OperatorError(
      `${source.name}: failed to parse cert PEM: holds a block of ${other.label}`,
    );
  }
  if (blocks.length === 0) {
    throw new OperatorError(`${source.name}: failed to parse cert PEM: there is no certificate`);
  }
  if (blocks.length > maximumCertificates) {
    const [count, most] = [blocks.length, maximumCertificates];
    throw new OperatorError(`${source.name}: holds ${count} certificates; the limit is ${most}`);
  }
  return blocks.map(({ der }, i) => readCertificate(der, `${source.name}, certificate ${i + 1}`));
}

function readCertificate(der: Bytes, place: string): ImportedCertificate {
  try {
    const claims = new x509.X509Certificate(der);
    const certificate = parseForeignAuthority(der);
    return {
      ...certificate,
      title: `${place} (${printable(claims.subject) || "no subject"})`,
      publicKey: parseSubjectPublicKey(certificate.toBeSigned.spki),
      ...readWithOpenSsl(der),
      claims: claimsOf(claims),
    };
  } catch (error) {
    throw new OperatorError(`${place}: ${unreadable(error)}`);
  }
}

function unreadable(error: unknown): string {
  if (error instanceof CaError && error.refusal.reason === "subject-key-unacceptable") {
    const accepted = "P-256, P-384, P-521, RSA of 2048 to 4096 bits with exponent 65537, Ed25519";
    return `has a key of the wrong kind or strength (${error.refusal.fault}); accepted are ${accepted}`;
  }
  const detail = error instanceof DerError ? `: ${error.message}` : "";
  return `failed to parse cert PEM: not a certificate that verifiers agree on${detail}`;
}

function claimsOf(certificate: x509.X509Certificate): Claims {
  const constraints = certificate.getExtension(x509.BasicConstraintsExtension);
  const usages = certificate.getExtension(x509.KeyUsagesExtension)?.usages;
  const names = certificate.getExtension(x509.SubjectAlternativeNameExtension)?.names.items ?? [];
  const nameConstraints = certificate.getExtension("2.5.29.30");
  const { name, hash } = certificate.signatureAlgorithm;
  return {
    isAuthority: constraints?.ca ?? false,
    pathLength: constraints?.pathLength,
    maySignCertificates:
      usages === undefined ? undefined : (usages & x509.KeyUsageFlags.keyCertSign) !== 0,
    extendedKeyUsages: certificate.getExtension(x509.ExtendedKeyUsageExtension)?.usages.map(String),
    spiffeIds: names
      .filter(({ type, value }) => type === "url" && value.startsWith("spiffe://"))
      .map(({ value }) => value),
    nameConstraints: nameConstraints ? new Uint8Array(nameConstraints.value) : undefined,
    criticalExtensions: certificate.extensions.filter((e) => e.critical).map(({ type }) => type),
    signatureHash: hash?.name ?? name,
  };
}

/** Whether name and signature match the issuer. */
export function isIssuedBy(certificate: ImportedCertificate, issuer: ImportedCertificate): boolean {
  return hasIssuerName(certificate, issuer) && certificate.verifier.verify(issuer.verifyingKey);
}

/** Compares octets, as Go and webpki do: another encoding of a name is another name. */
export function hasIssuerName(
  certificate: ImportedCertificate,
  issuer: ImportedCertificate,
): boolean {
  return bytesEqual(certificate.toBeSigned.issuer, issuer.toBeSigned.subject);
}

export const isSelfSigned = (certificate: ImportedCertificate): boolean =>
  isIssuedBy(certificate, certificate);

/** Whether it may be a root: OpenSSL takes it for a CA's. One of version 1 has no extension that says so. */
export const isAuthoritys = ({ claims, verifier, toBeSigned }: ImportedCertificate): boolean =>
  toBeSigned.version === 1 || (claims.isAuthority && verifier.ca);

/** The certificates in their order, without duplicates. */
export function withoutDuplicates(
  certificates: readonly ImportedCertificate[],
): readonly ImportedCertificate[] {
  return certificates.filter(
    ({ der }, i) => certificates.findIndex((other) => bytesEqual(other.der, der)) === i,
  );
}

export const isAmong = (
  certificate: ImportedCertificate,
  others: readonly ImportedCertificate[],
): boolean => others.some(({ der }) => bytesEqual(der, certificate.der));

export function isValidAt({ toBeSigned: { validity } }: ImportedCertificate, now: Date): boolean {
  return validity.notBefore <= now && now < validity.notAfter;
}
