import { CaError, OperatorError } from "../../../foundation/errors.ts";
import { readWithOpenSsl } from "../../../node/node-crypto-provider.ts";
import type { Bytes } from "../../../pki/encoding/bytes.ts";
import { DerError } from "../../../pki/encoding/der-reader.ts";
import { type CaCertificate, parseCaCertificate } from "../../../pki/path/certification-path.ts";
import { maximumCertificates } from "../../../pki/path/verified-authority.ts";
import { printable } from "../../terminal/text.ts";
import { pemBlocks } from "./pem-blocks.ts";
import type { Source } from "./plugged-in-material.ts";
import "reflect-metadata/lite";
import type { X509Certificate } from "node:crypto";
import * as x509 from "@peculiar/x509";

/** A certificate from an operator's files, read by three parsers that must all accept it. */
export interface ImportedCertificate extends CaCertificate {
  /** OpenSSL's view of it. */
  readonly verifier: X509Certificate;
}

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

/** One certificate. @throws OperatorError as {@link readCertificates} */
export function readCertificate(der: Bytes, place: string): ImportedCertificate {
  try {
    const { subject } = new x509.X509Certificate(der);
    const title = `${place} (${printable(subject) || "no subject"})`;
    const { verifier } = readWithOpenSsl(der);
    return { ...parseCaCertificate(der, title), verifier };
  } catch (error) {
    throw new OperatorError(`${place}: ${unreadable(error)}`);
  }
}

/** Why no authority can have this certificate. */
export function unreadable(error: unknown): string {
  if (error instanceof CaError && error.refusal.reason === "subject-key-unacceptable") {
    const accepted = "P-256, P-384, P-521, RSA of 2048 to 4096 bits with exponent 65537, Ed25519";
    return `has a key of the wrong kind or strength (${error.refusal.fault}); accepted are ${accepted}`;
  }
  const detail = error instanceof DerError ? `: ${error.message}` : "";
  return `failed to parse cert PEM: not a certificate that verifiers agree on${detail}`;
}

/** Whether it may be a root: OpenSSL takes it for a CA's. One of version 1 has no extension that says so. */
export const isAuthoritys = ({ claims, verifier, toBeSigned }: ImportedCertificate): boolean =>
  toBeSigned.version === 1 || (claims.isAuthority && verifier.ca);
