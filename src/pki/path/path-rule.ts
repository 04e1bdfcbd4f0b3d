import { type TrustDomain, trustDomainSpiffeId } from "../spiffe-id.ts";
import type { CaCertificate } from "./ca-certificate.ts";
import type { CertificationPath } from "./certification-path.ts";

/** The position of a certificate in a path, for a trust domain. */
export interface Place {
  /** The number of authorities below it. */
  readonly depth: number;
  readonly isAnchor: boolean;
  readonly trustDomain: TrustDomain;
}

/** A property of a certificate in a path, in words, or `false` if it lacks it. */
export type PathRule<Circumstances = unknown> = (
  certificate: CaCertificate,
  place: Place & Circumstances,
) => string | false;

/** One line for each rule that holds for a certificate of the path. */
export function linesOf<Circumstances extends { readonly trustDomain: TrustDomain }>(
  path: CertificationPath,
  rules: readonly PathRule<Circumstances>[],
  circumstances: Circumstances,
): string[] {
  return path.flatMap((certificate, depth) => {
    const place = { ...circumstances, depth, isAnchor: depth === path.length - 1 };
    return rules
      .map((rule) => rule(certificate, place))
      .filter((line) => line !== false)
      .map((line) => `${certificate.title}: ${line}`);
  });
}

/** The SPIFFE IDs of a CA certificate. */
export function spiffeIdsOf({ claims: { names } }: CaCertificate): string[] {
  return names
    .filter(({ kind, text }) => kind === "uri" && text.startsWith("spiffe://"))
    .map(({ text }) => text);
}

/** Whether a SPIFFE ID is the trust domain's own, or one within it. */
export function isOf(trustDomain: TrustDomain, spiffeId: string): boolean {
  const own = trustDomainSpiffeId(trustDomain);
  return spiffeId === own || spiffeId.startsWith(`${own}/`);
}
