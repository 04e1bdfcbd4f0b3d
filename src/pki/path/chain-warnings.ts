import { type CaCertificate, isAmong, isSelfIssued, isValidAt } from "./ca-certificate.ts";
import type { CertificationPath } from "./certification-path.ts";

/**
 * Warnings about the certificates of a chain: unused ones are left out, and the others are sorted. istiod
 * would serve the chain as it is.
 */
export function chainWarnings(
  found: readonly CaCertificate[],
  path: CertificationPath,
  anchors: readonly CaCertificate[],
): string[] {
  const warnings = found
    .filter((certificate) => !isAmong(certificate, [...path, ...anchors]))
    .map((stray) =>
      isSelfIssued(stray)
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

/** Separates expired anchors, which verify nothing any more. */
export function splitExpired(
  anchors: readonly CaCertificate[],
  now: Date,
): { readonly current: readonly CaCertificate[]; readonly warnings: readonly string[] } {
  const hasExpired = (anchor: CaCertificate): boolean =>
    !isValidAt(anchor, now) && now >= anchor.toBeSigned.validity.notAfter;
  return {
    current: anchors.filter((anchor) => !hasExpired(anchor)),
    warnings: anchors
      .filter(hasExpired)
      .map(({ title }) => `${title}: is left out, because it has expired`),
  };
}

/** Istio's longest life of a leaf (`MAX_WORKLOAD_CERT_TTL`): a successor needs that long to take over. */
const warningDays = 90;
const dayMilliseconds = 86_400_000;

/** Warnings about an authority that lives for a short time, or whose issuer expires before it. */
export function lifetimeWarnings(
  [authority]: CertificationPath,
  notAfter: Date,
  now: Date,
): string[] {
  const days = Math.floor((notAfter.getTime() - now.getTime()) / dayMilliseconds);
  const iso = notAfter.toISOString();
  const warnings: string[] = [];
  if (notAfter < authority.toBeSigned.validity.notAfter) {
    warnings.push(`${authority.title}: outlives a certificate above it, which expires at ${iso}`);
  }
  if (days < warningDays) {
    warnings.push(`${authority.title}: can be used for ${days} more days only, until ${iso}`);
  }
  return warnings;
}
