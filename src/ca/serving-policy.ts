import type { Caller } from "../authn/caller.ts";

/** The `CertSigner` of a request for a serving certificate. */
export const servingSigner = "serving";

/**
 * The DNS names under which a caller may serve; `undefined` for a caller that is no gateway.
 *
 * The table of the caller's issuer names the accounts of gateways and their DNS names. No DNS name enters
 * a certificate by another way; those of the CSR do not count.
 */
export function servingNames({ issuer, account }: Caller): readonly string[] | undefined {
  return issuer?.gatewayNames?.(account);
}
