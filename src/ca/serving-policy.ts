import type { Caller } from "../authn/caller.ts";

/** The `CertSigner` of a request for a serving certificate. */
export const servingSigner = "serving";

/**
 * The DNS names under which a caller may serve; `undefined` for a caller that is no gateway.
 *
 * A DNS name enters a certificate by no other way: the table of the caller's issuer says which accounts
 * are gateways, and under which names. The CSR has no say.
 */
export function servingNames({ issuer, account }: Caller): readonly string[] | undefined {
  return issuer?.gatewayNames?.(account);
}
