import type { Caller } from "../authn/caller.ts";
import type { TrustedIssuer } from "../authn/trusted-issuer.ts";

/** The `CertSigner` of a request for a serving certificate. */
export const servingSigner = "serving";

/** The DNS names under which a caller may serve, or nothing for one that may not. */
export type ServingPolicy = (caller: Caller) => readonly string[] | undefined;

/**
 * The only way for a DNS name into a certificate: its issuer's table says that the caller's account is
 * a gateway, and under which names. What the caller would like to be called, nobody asks.
 */
export function createServingPolicy(issuers: readonly TrustedIssuer[]): ServingPolicy {
  const byName = new Map(issuers.map((issuer) => [issuer.issuer, issuer]));
  return ({ issuer, account }) => byName.get(issuer ?? "")?.gatewayNames?.(account);
}
