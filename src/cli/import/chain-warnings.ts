import type { CertificationPath } from "./certification-path.ts";
import {
  type ImportedCertificate,
  isAmong,
  isSelfSigned,
  isValidAt,
} from "./imported-certificate.ts";

/**
 * Warnings about the certificates of a chain: unused ones are left out, and the others are sorted. istiod
 * would serve the chain as it is.
 */
export function chainWarnings(
  found: readonly ImportedCertificate[],
  path: CertificationPath,
  roots: readonly ImportedCertificate[],
): string[] {
  const warnings = found
    .filter((certificate) => !isAmong(certificate, [...path, ...roots]))
    .map((stray) =>
      isSelfSigned(stray)
        ? `${stray.title}: is left out, because it is self-signed and not among the roots`
        : `${stray.title}: is left out, because the authority does not need it`,
    );
  const misplaced = path
    .filter((certificate) => isAmong(certificate, found))
    .map((certificate) => found.findIndex((other) => isAmong(other, [certificate])))
    .findIndex((place, i, places) => i > 0 && place < (places[i - 1] ?? 0));
  const [first] = found;
  if (misplaced !== -1 && first) {
    warnings.push(`${first.title}: the chain is not in order from the authority up, and is sorted`);
  }
  return warnings;
}

/** Separates expired roots, which verify nothing any more. */
export function splitExpired(
  roots: readonly ImportedCertificate[],
  now: Date,
): { readonly current: readonly ImportedCertificate[]; readonly warnings: readonly string[] } {
  const hasExpired = (root: ImportedCertificate): boolean =>
    !isValidAt(root, now) && now >= root.toBeSigned.validity.notAfter;
  return {
    current: roots.filter((root) => !hasExpired(root)),
    warnings: roots
      .filter(hasExpired)
      .map(({ title }) => `${title}: is left out, because it has expired`),
  };
}
