import type { Caller } from "../../authn/caller.ts";
import type { ClusterSigner } from "../../authn/trusted-issuer.ts";
import { isDnsName } from "../../foundation/addresses.ts";
import { CaError } from "../../foundation/errors.ts";

/** The `CertSigner` of a request for a serving certificate. */
export const servingSigner = "serving";

/** As many as a table may give to a gateway. */
export const maximumServingNames = 32;

/**
 * The DNS names of a caller's serving certificate; `undefined` for a caller that gets none.
 *
 * The table of the caller's issuer names the accounts of gateways and their DNS names. It also names the
 * signers of its cluster, which request certificates for services, and bounds the names that they may
 * request. No DNS name enters a certificate by another way; those of the CSR do not count.
 *
 * @param requested `DnsNames` of the request, which a gateway's own names overrule.
 * @throws CaError `dns-name-denied`
 */
export function servingNames(
  { issuer, account }: Caller,
  requested: readonly string[],
): readonly string[] | undefined {
  const signer = issuer?.clusterSigner?.(account);
  return signer ? namesWithin(signer, requested) : issuer?.gatewayNames?.(account);
}

function namesWithin({ mayName }: ClusterSigner, requested: readonly string[]): readonly string[] {
  const names = [...new Set(requested)];
  const areWithin = names.every((name) => isDnsName(name) && mayName(name));
  if (areWithin && names.length > 0 && names.length <= maximumServingNames) return names;
  throw new CaError(
    { reason: "dns-name-denied" },
    "the caller may not have a serving certificate with the DNS names that it requests",
  );
}
