import { rejectCredential } from "../../authn/credential-rejection.ts";
import type { IssuerKeys } from "../../authn/token/issuer-keys.ts";
import { createJsonWebSignatureParser } from "../../authn/token/json-web-signature.ts";
import { requireAudience, requireTime } from "../../authn/token/registered-claims.ts";
import { requireSignature } from "../../authn/token/signature.ts";
import type { AccessTable } from "../../config/console-keys.ts";

/** The header in which Cloudflare Access hands the token of an admitted person to an origin. */
export const accessHeader = "cf-access-jwt-assertion";

/** Requires a token of Cloudflare Access for the application. @throws CaError */
export type RequireAccessToken = (token: string, now: Date) => Promise<void>;

const maximumTokenLength = 8 * 1024;

/**
 * Verifies tokens of Cloudflare Access: RS256 by a key of the team, its issuer, its audience, its time and
 * its type. A request that has come around Access has no such token.
 */
export function createAccessVerifier(
  { team, audience }: AccessTable,
  keys: IssuerKeys,
): RequireAccessToken {
  const parse = createJsonWebSignatureParser();
  return async (token, now) => {
    if (token.length > maximumTokenLength) throw rejectCredential("form", "the token is too long");
    const jws = parse(token);
    if (jws.algorithm !== "RS256") {
      throw rejectCredential("algorithm", "Access signs its tokens with RS256");
    }
    const { iss, type } = jws.claims;
    // Before any key is fetched: a stranger's token must not cause a request.
    if (iss !== team) throw rejectCredential("issuer", "not a token of this team");
    requireAudience(jws.claims, [audience]);
    requireTime(jws.claims, now);
    if (type !== "app") {
      throw rejectCredential("subject", "not a token for an application");
    }
    await requireSignature(jws, keys, now);
  };
}
