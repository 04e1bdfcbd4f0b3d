import type { Caller } from "../../authn/caller.ts";
import { CaError } from "../../foundation/errors.ts";
import type { IntermediateRights } from "../../pki/x509/intermediate.ts";

/** The `CertSigner` of a request for an intermediate CA. */
export const intermediateSigner = "intermediate";

/**
 * What a caller's intermediate may be, by the table of its issuer. Nothing else decides, and nothing of the
 * CSR but its key counts.
 *
 * @param isImpersonating Whether the caller names another identity than its own: then it gets none.
 * @throws CaError `signer-denied`
 */
export function intermediateFor(
  { issuer, account }: Caller,
  isImpersonating: boolean,
): IntermediateRights {
  const rights = isImpersonating ? undefined : issuer?.intermediateRights?.(account);
  if (rights) return rights;
  throw new CaError({ reason: "signer-denied" }, "the caller may not have an intermediate");
}
