import { X509Certificate } from "node:crypto";
import { closeSync, constants, fstatSync, openSync, readFileSync } from "node:fs";
import { OperatorError } from "../../foundation/errors.ts";
import { Base64 } from "../../pki/encoding/base64.ts";
import { DerReader, Tag } from "../../pki/encoding/der-reader.ts";
import { Pem, PemError } from "../../pki/encoding/pem.ts";
import { SmallFile } from "./small-file.ts";

/** Four times the bundle of an operating system. */
export const maximumPemOctets: number = 1024 * 1024;

/** Reads files of PEM. */
export const PemFile = {
  /** Reads a file of certificates, CRLs or a key, unparsed. @throws OperatorError as {@link SmallFile.readOctets}. */
  async read(path: string, maximumOctets: number = maximumPemOctets): Promise<string> {
    const octets = await SmallFile.readOctets(path, maximumOctets);
    return Buffer.from(octets).toString("latin1");
  },

  /**
   * Reads a PEM file synchronously, for a probe or a watch that needs the content at once.
   *
   * @throws OperatorError if it is not a regular file or is longer than `maximumOctets`; otherwise the system's error.
   */
  readNow(path: string, maximumOctets: number = maximumPemOctets): string {
    // Without O_NONBLOCK, opening a pipe would block the process until it has a writer.
    const descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      const file = fstatSync(descriptor);
      if (file.isFile() && file.size <= maximumOctets) return readFileSync(descriptor, "latin1");
    } finally {
      closeSync(descriptor);
    }
    throw new OperatorError(`${path} is not a file of at most ${maximumOctets} octets`);
  },

  /**
   * Reads the roots that authenticate a server, PEM.
   *
   * @returns `undefined` where no file is named: the roots of the system.
   * @throws OperatorError for a file that cannot be read, holds no certificate, or holds a damaged one:
   *   OpenSSL would silently trust fewer roots.
   */
  async readRoots(path: string | undefined): Promise<string | undefined> {
    if (path === undefined) return undefined;
    const pem = await PemFile.read(path);
    const fault = PemFile.faultIn(pem);
    if (fault !== undefined) throw new OperatorError(`${path} ${fault}`);
    if (!Pem.certificates(pem).every(parseCertificate)) {
      throw new OperatorError(`${path} holds a certificate that cannot be read`);
    }
    return pem;
  },

  /** Why a text has no block of the `wanted` kind, to follow the text's name in a sentence; `undefined` if it has one. */
  faultIn(pem: string, wanted: "CERTIFICATE" | "X509 CRL" = "CERTIFICATE"): string | undefined {
    try {
      const isThere = Pem.blocks(pem).some(({ label }) => label === wanted);
      return isThere ? undefined : `holds no ${wanted === "X509 CRL" ? "CRL" : "certificate"}`;
    } catch (error) {
      if (error instanceof PemError) return error.message;
      throw error;
    }
  },
};

/**
 * The certificates of a PEM text, in order; none if {@link PemFile.faultIn} finds a fault. As in Istio, a block that is
 * no certificate is skipped.
 */
export function parseCertificates(pem: string): readonly X509Certificate[] {
  return Pem.certificates(pem).flatMap((base64) => parseCertificate(base64) ?? []);
}

/**
 * Parses a certificate: DER in base64 on one line. @returns `undefined` for what is not DER, such as octets after a
 * certificate. OpenSSL reads that, but other verifiers refuse the whole file.
 */
export function parseCertificate(base64: string): X509Certificate | undefined {
  const der = Base64.parse(base64);
  try {
    const certificate = der && new X509Certificate(der);
    return der && certificate?.raw.equals(der) ? certificate : undefined;
  } catch {
    // OpenSSL's errors do not say more than the caller knows.
    return undefined;
  }
}

/**
 * Whether a verifier accepts a certificate as a trust anchor: that of a CA, or a self-issued one of version 1, which
 * has no extension that marks a CA (Istio's sample root is one).
 */
export function mayBeRoot(certificate: X509Certificate): boolean {
  if (certificate.ca) return true;
  const fields = new DerReader(certificate.raw).enter(Tag.sequence).enter(Tag.sequence);
  const isVersion1 = !fields.nextIs(Tag.contextConstructed(0));
  return isVersion1 && certificate.checkIssued(certificate);
}
