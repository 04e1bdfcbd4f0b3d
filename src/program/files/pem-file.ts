import { X509Certificate } from "node:crypto";
import { closeSync, constants, fstatSync, openSync, readFileSync } from "node:fs";
import { OperatorError } from "../../foundation/errors.ts";
import { parseBase64 } from "../../pki/encoding/base64.ts";
import { DerReader, Tag } from "../../pki/encoding/der-reader.ts";
import { certificateBlocks } from "../../pki/encoding/pem.ts";
import { readSmallFile } from "./small-file.ts";

/** Four times the bundle of an operating system. */
export const maximumPemOctets: number = 1024 * 1024;

/** Reads certificates or a key. @throws OperatorError as {@link readSmallFile}. */
export function readPemFile(path: string): Promise<string> {
  return readSmallFile(path, maximumPemOctets);
}

/**
 * The same without a wait, where a probe or a watch needs the content now.
 *
 * @throws Error of the system, and OperatorError for what is no regular file of at most so many octets.
 */
export function readPemFileNow(path: string, maximumOctets: number = maximumPemOctets): string {
  // Otherwise to open a pipe would wait for its writer, and stop the process.
  const descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const file = fstatSync(descriptor);
    if (file.isFile() && file.size <= maximumOctets) return readFileSync(descriptor, "utf8");
  } finally {
    closeSync(descriptor);
  }
  throw new OperatorError(`${path} is not a file of at most ${maximumOctets} octets`);
}

/**
 * Reads the roots that authenticate a server, PEM.
 *
 * @returns `undefined` where no file is named: the roots of the system.
 * @throws OperatorError for a file that cannot be read, holds no certificate, or holds a damaged one:
 *   OpenSSL would silently trust fewer roots.
 */
export async function readRootFile(path: string | undefined): Promise<string | undefined> {
  if (path === undefined) return undefined;
  const pem = await readPemFile(path);
  const blocks = certificateBlocks(pem);
  if (blocks.length === 0) throw new OperatorError(`${path} holds no certificate`);
  if (!blocks.every(parseCertificate)) {
    throw new OperatorError(`${path} holds a certificate that cannot be read`);
  }
  return pem;
}

/** More certificates than the bundle of any operating system holds. */
const maximumCertificates = 1_000;

/** The certificates of a PEM text, in order. As Istio does, it skips blocks that do not parse. */
export function parseCertificates(pem: string): readonly X509Certificate[] {
  const blocks = certificateBlocks(pem).slice(0, maximumCertificates);
  return blocks.flatMap((base64) => parseCertificate(base64) ?? []);
}

/**
 * The certificate of DER in base64 on one line, or `undefined`. OpenSSL also reads what is not DER, such as
 * octets after a certificate. Other verifiers refuse that, and the whole file with it.
 */
export function parseCertificate(base64: string): X509Certificate | undefined {
  const der = parseBase64(base64);
  try {
    const certificate = der && new X509Certificate(der);
    return der && certificate?.raw.equals(der) ? certificate : undefined;
  } catch {
    // OpenSSL's errors do not say more than the caller knows.
    return undefined;
  }
}

/**
 * Whether a verifier takes it for an anchor: the certificate of a CA, or a self-issued one of version 1.
 * Version 1, such as that of Istio's sample root, has no extension that says so.
 */
export function mayBeRoot(certificate: X509Certificate): boolean {
  if (certificate.ca) return true;
  const fields = new DerReader(certificate.raw).enter(Tag.sequence).enter(Tag.sequence);
  const isVersion1 = !fields.nextIs(Tag.contextConstructed(0));
  return isVersion1 && certificate.checkIssued(certificate);
}
