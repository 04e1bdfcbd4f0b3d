import type { IssuerKeys } from "../authn/issuer-keys.ts";
import type { ConsoleConfiguration } from "../config/optional-parts.ts";
import { CaError, rejectCredential } from "../foundation/errors.ts";
import { Base64 } from "../pki/encoding/base64.ts";
import { fingerprintOf } from "../pki/encoding/bytes.ts";
import { JsonWebSignature } from "../pki/jose/json-web-signature.ts";
import { RegisteredClaims } from "../pki/jose/registered-claims.ts";

/** Admits operators, and nobody else. */
export interface OperatorGuard {
  /**
   * @throws CaError `credential-missing`, `credential-rejected`, `key-provider-unreachable`,
   *   `too-many-waiting`.
   */
  readonly require: (headers: Headers, now: Date) => Promise<void>;
  /** Whether a refusal makes browsers ask for a token (Basic). */
  readonly asksForToken: boolean;
  /** The sentence for a caller without a credential. */
  readonly sentence: string;
}

/** Creates guards of the console. */
export const OperatorGuard = {
  /**
   * Admits whoever shows one of the tokens, or a token of Cloudflare Access. If a request has both, only the
   * `Authorization` header is verified, because the caller itself has sent it. Without `tokens` the header is ignored.
   *
   * @param accessKeys The keys of the team, where Access is configured.
   */
  create(
    { tokens, access }: ConsoleConfiguration,
    accessKeys: IssuerKeys | undefined,
  ): OperatorGuard {
    const requireToken = createTokenVerifier(tokens);
    const requireAccess = access && accessKeys && createAccessVerifier(access, accessKeys);
    return {
      asksForToken: tokens.length > 0,
      sentence:
        "the console is for operators alone: show a token, or come through Cloudflare Access",
      require: async (headers, now) => {
        const authorization = headers.get("authorization");
        const accessToken = headers.get(accessHeader);
        if (tokens.length > 0 && authorization !== null) {
          return requireToken(shownToken(authorization));
        }
        if (requireAccess && accessToken !== null) return requireAccess(accessToken, now);
        throw new CaError({ reason: "credential-missing" }, "the console needs a credential");
      },
    };
  },
};

/**
 * Whether a page of another site sent the request, other than by a link; `false` if no browser says so. That page could
 * not read the response, so the work for it would be wasted.
 */
export function isFromElsewhere(headers: Headers): boolean {
  const site = headers.get("sec-fetch-site");
  const isNavigation = headers.get("sec-fetch-mode") === "navigate";
  return (site === "cross-site" || site === "same-site") && !isNavigation;
}

const longestHeader = 2048;

/**
 * The token in an `Authorization` header: a bearer token, or the password of Basic, with which a browser answers the
 * challenge of a page. The user name is ignored.
 *
 * @throws CaError `credential-rejected` (`form`).
 */
function shownToken(authorization: string): string {
  if (authorization.length > longestHeader) throw malformed();
  const [, scheme = "", credentials = ""] = /^(\S+) +(\S+)$/.exec(authorization) ?? [];
  if (/^bearer$/i.test(scheme)) return credentials;
  if (!/^basic$/i.test(scheme)) throw malformed();
  const decoded = new TextDecoder().decode(Base64.parse(credentials));
  const colon = decoded.indexOf(":");
  if (colon < 0) throw malformed();
  return decoded.slice(colon + 1);
}

const malformed = () =>
  rejectCredential("form", "neither a bearer token nor the password of a name");

/**
 * Requires one of the tokens. It always compares all digests, so that the time reveals nothing about a token.
 *
 * @throws CaError `credential-rejected` (`key`).
 */
function createTokenVerifier(tokens: readonly ConsoleConfiguration["tokens"][number][]) {
  let known: readonly string[] | undefined;
  return async (token: string): Promise<void> => {
    known ??= tokens.map((each) => ("sha256" in each ? each.sha256 : digestOf(each.token)));
    const shown = digestOf(token);
    const isKnown = known.map((each) => isSame(each, shown)).includes(true);
    if (!isKnown) throw rejectCredential("key", "not a token of the console");
  };
}

const digestOf = (token: string): string => fingerprintOf(new TextEncoder().encode(token));

function isSame(a: string, b: string): boolean {
  let difference = a.length ^ b.length;
  for (let i = 0; i < a.length; i++) difference |= a.charCodeAt(i) ^ b.charCodeAt(i);
  return difference === 0;
}

/** The header in which Cloudflare Access sends the token of an admitted person to the origin. */
const accessHeader = "cf-access-jwt-assertion";

const maximumTokenLength = 8 * 1024;

/**
 * Verifies tokens of Cloudflare Access: RS256 by a key of the team, and the token's issuer, audience, time and type. A
 * request that bypassed Access has no such token.
 */
function createAccessVerifier(
  { team, audience }: NonNullable<ConsoleConfiguration["access"]>,
  keys: IssuerKeys,
) {
  return async (token: string, now: Date): Promise<void> => {
    if (token.length > maximumTokenLength) throw rejectCredential("form", "the token is too long");
    const jws = JsonWebSignature.parse(token);
    if (jws.algorithm !== "RS256") {
      throw rejectCredential("algorithm", "Access signs its tokens with RS256");
    }
    const { iss, type } = jws.claims;
    // Verified before a key is fetched, so that a stranger's token causes no request.
    if (iss !== team) throw rejectCredential("issuer", "not a token of this team");
    RegisteredClaims.requireAudience(jws.claims, [audience]);
    RegisteredClaims.requireTime(jws.claims, now);
    if (type !== "app") {
      throw rejectCredential("subject", "not a token for an application");
    }
    await JsonWebSignature.requireSignature(jws, keys, now);
  };
}
