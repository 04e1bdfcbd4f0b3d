import { rejectCredential } from "../../foundation/errors.ts";
import type { Members } from "../../foundation/json-members.ts";
import { SpiffeId, TrustDomain } from "../spiffe-id.ts";
import { JsonWebSignature } from "./json-web-signature.ts";
import { type JwsAlgorithm, KeySet } from "./key-set.ts";
import { RegisteredClaims } from "./registered-claims.ts";

/** The claims of a JWT-SVID. They prove nothing until its signature is verified. */
export interface JwtSvid {
  readonly spiffeId: SpiffeId;
  readonly trustDomain: TrustDomain;
  /** Never empty. */
  readonly audiences: readonly string[];
  readonly expiresAt: Date;
  readonly keyId: string;
  readonly claims: Members;
}

/** The algorithms of a JWT-SVID (SPIFFE JWT-SVID §2.1). */
export const jwtSvidAlgorithms: readonly JwsAlgorithm[] = [
  ...(["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"] as const),
  ...(["ES256", "ES384", "ES512"] as const),
];

/** The longest token. The standard has no limit, but a token travels in a header, of which servers take 8 KiB. */
const maximumLength = 8 * 1024;

/** Whether a `typ` is one of the two of SPIFFE JWT-SVID §2.3, exactly as it spells them. */
const isType = (typ: unknown): boolean => typ === "JWT" || typ === "JOSE";

/** Reads and verifies JWT-SVIDs. */
export const JwtSvid = {
  /**
   * Reads a JWT-SVID. It verifies neither the signature nor that the token is meant for a certain audience.
   *
   * @throws CaError `credential-rejected` (`form`, `algorithm`, `key`, `subject`, `time`, `audience` if it has none).
   */
  read(token: string, now: Date): JwtSvid {
    return svidOf(parse(token), now);
  },

  /**
   * Verifies a JWT-SVID for an audience, and returns its claims. A key of the trust domain of its `sub` must have signed it.
   *
   * @param keysOf The keys of a trust domain; `undefined` for one that is not trusted.
   * @throws CaError `credential-rejected` (`form`, `algorithm`, `key`, `subject`, `time`, `audience`, `issuer`,
   *   `signature`).
   */
  async validate(
    token: string,
    audience: string,
    keysOf: (trustDomain: TrustDomain) => KeySet | undefined,
    now: Date,
  ): Promise<JwtSvid> {
    const jws = parse(token);
    const svid = svidOf(jws, now);
    RegisteredClaims.requireAudience(jws.claims, [audience]);
    const keys = keysOf(svid.trustDomain);
    if (!keys)
      throw rejectCredential("issuer", "the token is of a trust domain that is not trusted");
    await JsonWebSignature.requireSignature(
      jws,
      ({ algorithm }) => KeySet.candidates(keys, algorithm, svid.keyId),
      now,
    );
    return svid;
  },
};

function parse(token: string): JsonWebSignature {
  if (token.length > maximumLength) throw rejectCredential("form", "the token is too long");
  return JsonWebSignature.parse(token, isType);
}

/** Refuses claims that JavaScript can read but other languages cannot: their libraries would refuse the token. */
function requireReadable(claims: Members): void {
  const { iss = "", jti = "" } = claims;
  if (RegisteredClaims.isText(iss) && RegisteredClaims.isText(jti) && isReadable(claims)) return;
  throw rejectCredential("form", "the claims are none that every verifier reads");
}

function isReadable(value: unknown): boolean {
  if (typeof value === "number") return Number.isFinite(value);
  if (typeof value === "string") return value.isWellFormed();
  if (typeof value !== "object" || value === null) return true;
  return Object.entries(value).flat().every(isReadable);
}

function svidOf({ algorithm, keyId, claims }: JsonWebSignature, now: Date): JwtSvid {
  if (!jwtSvidAlgorithms.some((allowed) => allowed === algorithm)) {
    throw rejectCredential("algorithm", "no JWT-SVID has the token's algorithm");
  }
  // Without a key id, every key would have to be tried, and no verifier of SPIFFE accepts a token without one.
  if (!keyId) throw rejectCredential("key", "the token names no key");
  const { sub, exp } = claims;
  const trustDomain = TrustDomain.parse(
    typeof sub === "string" ? (sub.split("/", 3)[2] ?? "") : "",
  );
  if (typeof sub !== "string" || !SpiffeId.isWorkload(sub) || !trustDomain) {
    throw rejectCredential("subject", "the token's subject is no SPIFFE ID of a workload");
  }
  RegisteredClaims.requireTime(claims, now);
  requireReadable(claims);
  const audiences = RegisteredClaims.audiences(claims);
  if (audiences.length === 0) throw rejectCredential("audience", "the token has no audience");
  const expiresAt = new Date(Number(exp) * 1000);
  return { spiffeId: sub as SpiffeId, trustDomain, audiences, expiresAt, keyId, claims };
}
