import { type KeyObject, X509Certificate } from "node:crypto";
import type { Bytes } from "../pki/encoding/bytes.ts";
import { DerError } from "../pki/encoding/der-reader.ts";
import { parseCertificate } from "../pki/x509/certificate.ts";

/** A certificate as OpenSSL reads it. */
export interface OpenSslReading {
  readonly verifier: X509Certificate;
  /** Its key, which is on its curve. */
  readonly verifyingKey: KeyObject;
}

/** Reads a certificate with OpenSSL, which most verifiers are or descend from. @throws DerError */
export function readWithOpenSsl(der: Bytes): OpenSslReading {
  try {
    const verifier = new X509Certificate(der);
    return { verifier, verifyingKey: verifier.publicKey };
  } catch {
    // OpenSSL's errors say nothing that an operator can use.
    throw new DerError("OpenSSL does not read it");
  }
}

/**
 * Requires that OpenSSL reads an authority's certificate with all its extensions, and takes it for one.
 *
 * @throws DerError
 */
export function requireReadable(der: Bytes): void {
  const { verifier } = readWithOpenSsl(der);
  // A root of version 1 has no extension that says so.
  const { version } = parseCertificate(der).toBeSigned;
  if (!verifier.ca && version !== 1)
    throw new DerError("OpenSSL does not take it for an authority's");
}
