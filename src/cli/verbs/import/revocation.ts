import { OperatorError } from "../../../foundation/errors.ts";
import { DerError } from "../../../pki/encoding/der-reader.ts";
import type { CertificationPath } from "../../../pki/path/certification-path.ts";
import { type CrlEntries, isRevoked, parseCrlEntries } from "../../../pki/x509/crl/crl.ts";
import { type PemBlock, pemBlocks } from "./pem-blocks.ts";
import type { Source } from "./plugged-in-material.ts";

/**
 * The revocation lists of Istio's `ca-crl.pem`.
 *
 * @throws OperatorError for a file that holds anything else, or nothing.
 */
export function readRevocationLists(source: Source): readonly CrlEntries[] {
  const blocks = pemBlocks(source);
  if (blocks.length === 0) throw new OperatorError(`${source.name}: failed to parse CRL PEM`);
  return blocks.map((block, i) => readList(block, `${source.name}, CRL ${i + 1}`));
}

function readList({ label, der }: PemBlock, place: string): CrlEntries {
  try {
    if (label === "X509 CRL") return parseCrlEntries(der);
  } catch (error) {
    if (!(error instanceof DerError)) throw error;
  }
  throw new OperatorError(`${place}: failed to parse CRL PEM`);
}

/** @throws OperatorError if a list names a certificate of the path. */
export function requireNotRevoked(
  path: CertificationPath,
  lists: readonly CrlEntries[],
  { name }: Source,
): void {
  const revoked = path.filter((certificate) => isRevoked(certificate, lists));
  if (revoked.length === 0) return;
  throw new OperatorError(
    revoked.map(({ title }) => `${title}: is revoked, says ${name}`).join("\n"),
  );
}
