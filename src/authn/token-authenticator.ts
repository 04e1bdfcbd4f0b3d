import { CaError, rejectCredential } from "../foundation/errors.ts";
import type { Refusal } from "../foundation/refusal.ts";
import type { BoundAccount, BoundNode, BoundObject } from "../kubernetes/pods.ts";
import { JsonWebSignature } from "../pki/jose/json-web-signature.ts";
import { RegisteredClaims } from "../pki/jose/registered-claims.ts";
import { SpiffeId, type TrustDomain } from "../pki/spiffe-id.ts";
import { wholeSeconds } from "../pki/x509/validity.ts";
import type { Authenticator, Caller, TokenBearer } from "./caller.ts";
import { parseServiceAccountClaims } from "./internal/service-account-claims.ts";
import type { TokenIssuer } from "./token-issuer.ts";
import { digestOf, type TokenReview } from "./token-review.ts";
import type { SubjectMapping } from "./token-subject.ts";

/**
 * Authenticates a caller by its token: bearer → JWS → issuer → keys or review → claims → caller.
 *
 * The issuer that the token names decides alone how the token is verified; keys and API servers of other issuers are
 * never tried. istiod tries its authenticators one after the other instead.
 */
export function createTokenAuthenticator(
  trustDomain: TrustDomain,
  issuers: readonly TokenIssuer[],
): Authenticator {
  const byName = new Map<unknown, TokenIssuer>(issuers.map((issuer) => [issuer.name, issuer]));
  return async ({ headers }, now) => {
    const token = readToken(headers.get("authorization"), byName);
    const bearer = await proveToken(token, now);
    return callerWithin(token.issuer, bearer, headers.get("clusterid"), { trustDomain, now });
  };
}

/** The token of a request, with the issuer that it names. Neither its signature nor its claims are verified yet. */
interface PresentedToken {
  readonly jws: JsonWebSignature;
  readonly issuer: TokenIssuer;
}

/** Reads the token once, for all checks of it, and finds its issuer by `iss`, byte for byte. */
function readToken(
  authorization: string | null,
  issuers: ReadonlyMap<unknown, TokenIssuer>,
): PresentedToken {
  const jws = JsonWebSignature.parse(parseBearerToken(authorization));
  const { iss } = jws.claims;
  const issuer = issuers.get(iss);
  if (issuer) return { jws, issuer };
  throw rejectCredential("issuer", `the token is of an unknown issuer: ${quoted(iss)}`);
}

const bearerScheme = "Bearer ";

/** A projected ServiceAccount token is about 1.5 kB; signed with RSA-4096 it is 2 kB. */
const maximumTokenLength = 16 * 1024;

/**
 * The bearer token of a request, by the rule of Istio's `ExtractBearerToken` (pkg/security/security.go).
 * The value begins with an exact `Bearer `. Values of other schemes are skipped. Two bearer tokens are
 * refused, because a proxy in front may have verified the other one.
 *
 * @param authorization The header as fetch gives it: several values joined by a comma, which
 *   neither a JWT nor Basic credentials can contain.
 * @throws CaError `credential-missing`, `credential-rejected` (`form`).
 */
export function parseBearerToken(authorization: string | null): string {
  const values = (authorization ?? "").split(",").map((value) => value.trim());
  const [value, ...others] = values.filter((each) => each.startsWith(bearerScheme));
  if (value === undefined) {
    throw new CaError({ reason: "credential-missing" }, "no bearer token in the request");
  }
  if (others.length > 0) throw rejectCredential("form", "more than one bearer token");
  const token = value.slice(bearerScheme.length);
  if (token.length <= maximumTokenLength) return token;
  throw rejectCredential("form", "the bearer token is too long");
}

/**
 * An unverified claim for the log: its first 80 characters as a JSON string, so that it stays on one line. Any value
 * but a string becomes `not a text`.
 */
export function quoted(claim: unknown): string {
  return typeof claim === "string" ? JSON.stringify(claim.slice(0, 80)) : "not a text";
}

/**
 * Proves whose a token is, by its issuer's keys, its cluster's API server, or both, in the order that
 * the issuer is configured with. A rejection by either is final.
 *
 * @throws CaError `credential-rejected`, `key-provider-unreachable`, `cluster-unreachable`, `cluster-busy`.
 */
function proveToken(token: PresentedToken, now: Date): Promise<TokenBearer> {
  const { review, subjects } = token.issuer;
  if (subjects) return proveSubject(token, subjects, now);
  if (!review) return proveByKeys(token, now);
  switch (review.order) {
    case "after-keys":
      return proveByKeysOrReview(token, review.ask, now);
    case "before-keys":
      return proveByKeysAndReview(token, review.ask, now);
    case "instead-of-keys":
      return proveByReview(token, review.ask, false, now);
  }
}

/**
 * Verifies a token without a call to its cluster. The token is then good until it expires, even if its pod has been
 * deleted.
 */
async function proveByKeys({ jws, issuer }: PresentedToken, now: Date): Promise<BoundAccount> {
  await JsonWebSignature.requireSignature(jws, issuer.keys, now);
  return parseServiceAccountClaims(jws.claims, issuer.audiences, now);
}

/** Verifies a token that is no ServiceAccount's by its issuer's keys, because no API server can review it. */
async function proveSubject(
  { jws, issuer }: PresentedToken,
  { map }: SubjectMapping,
  now: Date,
): Promise<TokenBearer> {
  await JsonWebSignature.requireSignature(jws, issuer.keys, now);
  const { claims, compact } = jws;
  const { usedOnceUntil: until, ...mapped } = map(claims, issuer.audiences, now);
  const { jti } = claims;
  const signed = compact.slice(0, compact.lastIndexOf("."));
  const singleUse = until && { digest: await digestOf(signed), until };
  return { ...mapped, tokenId: RegisteredClaims.isText(jti) ? jti : undefined, singleUse };
}

/** The API server decides if the keys cannot be fetched, or the token's key is not among them. */
async function proveByKeysOrReview(
  token: PresentedToken,
  ask: TokenReview,
  now: Date,
): Promise<BoundAccount> {
  try {
    return await proveByKeys(token, now);
  } catch (error) {
    const refusal = refusalOf(error);
    const isKeyMissing = refusal?.reason === "credential-rejected" && refusal.check === "key";
    if (!isKeyMissing && refusal?.reason !== "key-provider-unreachable") throw error;
    return proveByReview(token, ask, false, now);
  }
}

/**
 * The keys come first, so that forged tokens cannot keep the API server busy. While the keys cannot be fetched, the API
 * server decides alone. While it cannot be reached, the keys decide. While it is busy, the caller must try again.
 */
async function proveByKeysAndReview(
  token: PresentedToken,
  ask: TokenReview,
  now: Date,
): Promise<BoundAccount> {
  const verified = await proveByKeys(token, now).catch((error: unknown) => {
    if (refusalOf(error)?.reason === "key-provider-unreachable") return undefined;
    throw error;
  });
  try {
    return await proveByReview(token, ask, verified !== undefined, now);
  } catch (error) {
    if (verified && refusalOf(error)?.reason === "cluster-unreachable") return verified;
    throw error;
  }
}

function refusalOf(error: unknown): Refusal | undefined {
  return error instanceof CaError ? error.refusal : undefined;
}

/** Refuses an expired token, or one for another audience, without a request to the API server. */
async function proveByReview(
  { jws, issuer }: PresentedToken,
  ask: TokenReview,
  isVerified: boolean,
  now: Date,
): Promise<BoundAccount> {
  const claimed = parseServiceAccountClaims(jws.claims, issuer.audiences, now);
  const { exp } = jws.claims;
  const expiresAt = new Date(Number(exp) * 1000);
  const reviewed = await ask({ text: jws.compact, expiresAt, isVerified }, now);
  requireAgreement(claimed, reviewed);
  // An older API server names no node in its answer. It has verified the token, so the node in the token is used.
  const pod = reviewed.pod ?? claimed.pod;
  return { ...reviewed, pod, node: reviewed.node ?? claimed.node, tokenId: claimed.tokenId };
}

/** Requires that the API server's answer is about the bearer that the token's claims name. */
function requireAgreement(claimed: BoundAccount, reviewed: BoundAccount): void {
  const { account } = reviewed;
  const isSameAccount =
    account.namespace === claimed.account.namespace && account.name === claimed.account.name;
  if (isSameAccount && agree(claimed.pod, reviewed.pod) && agree(claimed.node, reviewed.node)) {
    return;
  }
  throw rejectCredential("subject", "the API server speaks of another bearer than the token");
}

/** Whether two statements about an object agree. Either may be absent, or lack the UID. */
function agree(claimed?: BoundObject | BoundNode, reviewed?: BoundObject | BoundNode): boolean {
  if (!claimed || !reviewed) return true;
  const isSameUid = claimed.uid === reviewed.uid || !claimed.uid || !reviewed.uid;
  return claimed.name === reviewed.name && isSameUid;
}

/**
 * Makes the caller of an authenticated token. Refuses one outside the namespaces and the cluster that its issuer may vouch
 * for.
 *
 * It must not run before the token is authenticated: the time that a refusal takes would tell the sender of a forged
 * token which namespaces an issuer has.
 *
 * @param clusterId The caller's `clusterid`; absent, or empty, for none.
 * @throws CaError `credential-rejected` (`namespace`, `cluster`).
 */
export function callerWithin(
  issuer: TokenIssuer,
  { account, pod, node, tokenId, tokenSubject, singleUse, entryDigest }: TokenBearer,
  clusterId: string | null,
  { trustDomain, now }: { readonly trustDomain: TrustDomain; readonly now: Date },
): Caller {
  if (!issuer.mayVouchFor(account)) {
    throw rejectCredential("namespace", "the issuer may not vouch for this namespace");
  }
  requireCluster(clusterId, issuer);
  const provedBy = entryDigest ?? issuer.digest;
  const proof = { provedAt: wholeSeconds(now), issuer: provedBy, isImpersonated: false };
  const spiffeId = SpiffeId.ofWorkload(trustDomain, account);
  return { spiffeId, account, issuer, pod, node, tokenId, proof, tokenSubject, singleUse };
}

/**
 * Refuses a `clusterid` that is not a name of the cluster of the token's issuer. In istiod the header chooses the
 * cluster that judges the token; here it is only compared.
 */
function requireCluster(clusterId: string | null, issuer: TokenIssuer): void {
  const { name, cluster, clusterAliases } = issuer;
  if (!clusterId || clusterId === cluster || clusterAliases.includes(clusterId)) return;
  const claimed = `${quoted(clusterId)}, and ${name} stands for ${cluster}`;
  throw rejectCredential("cluster", `the caller claims the cluster ${claimed}`);
}
