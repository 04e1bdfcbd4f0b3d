import type { TrustDomain } from "../../pki/spiffe-id.ts";
import type { Authenticator } from "../authenticator.ts";
import type { TrustedIssuer } from "../trusted-issuer.ts";
import { createTokenReader } from "./presented-token.ts";
import { proveToken } from "./proof.ts";
import { callerWithin } from "./token-caller.ts";

/**
 * Authenticates by a ServiceAccount token: bearer → JWS → issuer → keys or review → claims → caller.
 *
 * The issuer that the token names decides alone how the token is proved. No key and no API server of
 * another cluster counts. istiod tries its authenticators one after the other instead.
 */
export function createTokenAuthenticator(
  trustDomain: TrustDomain,
  issuers: readonly TrustedIssuer[],
): Authenticator {
  const readToken = createTokenReader(issuers);
  return async ({ headers }, now) => {
    const token = readToken(headers.get("authorization"));
    const bearer = await proveToken(token, now);
    return callerWithin(token.issuer, bearer, headers.get("clusterid"), { trustDomain, now });
  };
}
