import { CaError, rejectCredential } from "../../foundation/errors.ts";
import type { BoundAccount, BoundNode, BoundObject } from "../../kubernetes/pods.ts";
import { type JsonObject, JsonWebSignature } from "../../pki/jose/json-web-signature.ts";
import { RegisteredClaims } from "../../pki/jose/registered-claims.ts";
import { ServiceAccount } from "../../pki/spiffe-id.ts";
import type { TokenIssuer } from "../token-issuer.ts";

/** The token of a request, with the issuer that it names. Neither its signature nor its claims are verified yet. */
export interface PresentedToken {
  readonly jws: JsonWebSignature;
  readonly issuer: TokenIssuer;
}

/**
 * Reads the token of a request once, for all checks of it.
 *
 * @param authorization The header as fetch gives it.
 * @throws CaError `credential-missing`, `credential-rejected` (`form`, `issuer`).
 */
type TokenReader = (authorization: string | null) => PresentedToken;

/** Creates a reader of the `Authorization` header. It finds the issuer by `iss`, byte for byte, and verifies nothing else. */
export function createTokenReader(issuers: readonly TokenIssuer[]): TokenReader {
  const byName = new Map<unknown, TokenIssuer>(issuers.map((issuer) => [issuer.name, issuer]));
  return (authorization) => {
    const jws = JsonWebSignature.parse(parseBearerToken(authorization));
    const { iss } = jws.claims;
    const issuer = byName.get(iss);
    if (issuer) return { jws, issuer };
    throw rejectCredential("issuer", `the token is of an unknown issuer: ${quoted(iss)}`);
  };
}

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
  const tokens = bearerTokens(authorization ?? "");
  const token = tokens[0];
  if (token === undefined) {
    throw new CaError({ reason: "credential-missing" }, "no bearer token in the request");
  }
  if (tokens.length > 1) throw rejectCredential("form", "more than one bearer token");
  if (token.length > maximumTokenLength)
    throw rejectCredential("form", "the bearer token is too long");
  return token;
}

const prefix = "Bearer ";

function bearerTokens(authorization: string): string[] {
  const values = authorization.includes(",") ? authorization.split(",") : [authorization];
  const tokens: string[] = [];
  for (const value of values) {
    const trimmed = value.trim();
    if (trimmed.startsWith(prefix)) tokens.push(trimmed.slice(prefix.length));
  }
  return tokens;
}

/**
 * Reads the claims of a token: its times, its audience, and the account and objects that it is bound to.
 *
 * @throws CaError `credential-rejected` (`form`, `time`, `audience`, `subject`).
 */
export function parseServiceAccountClaims(
  claims: JsonObject,
  audiences: readonly string[],
  now: Date,
): BoundAccount {
  const { sub, jti } = claims;
  RegisteredClaims.requireTime(claims, now);
  RegisteredClaims.requireAudience(claims, audiences);
  const account = parseSubject(sub);
  const { pod, node } = readBoundObjects(claims["kubernetes.io"], account);
  // A `jti` of another form is dropped: an issuer that is not Kubernetes may write anything there, and only the log shows it.
  return { account, pod, node, tokenId: RegisteredClaims.isText(jti) ? jti : undefined };
}

function parseSubject(sub: unknown): ServiceAccount {
  if (!RegisteredClaims.isText(sub)) throw rejectCredential("form", "sub is no text");
  const account = ServiceAccount.parseUser(sub);
  if (account) return account;
  throw rejectCredential("subject", "the token's subject is no ServiceAccount");
}

type BoundObjects = Pick<BoundAccount, "pod" | "node">;

const unbound: BoundObjects = { pod: undefined, node: undefined };

/** The private claims of Kubernetes, if there are any. They must agree with the subject. */
function readBoundObjects(claim: unknown, account: ServiceAccount): BoundObjects {
  if (claim === undefined) return unbound;
  const { namespace, serviceaccount, pod, node } = readObject(claim);
  const { name } = readObject(serviceaccount);
  if (namespace !== account.namespace || name !== account.name) {
    throw rejectCredential("subject", "the token's subject contradicts its kubernetes.io claims");
  }
  return {
    pod: pod === undefined ? undefined : readBoundObject(pod),
    node: node === undefined ? undefined : readNode(node),
  };
}

function readBoundObject(value: unknown): BoundObject {
  const { name, uid } = readObject(value);
  if (RegisteredClaims.isText(name) && RegisteredClaims.isText(uid)) return { name, uid };
  throw rejectCredential("form", "a bound object without name and uid");
}

function readNode(value: unknown): BoundNode {
  const { name, uid } = readObject(value);
  return uid === undefined && RegisteredClaims.isText(name) ? { name } : readBoundObject(value);
}

function readObject(value: unknown): JsonObject {
  if (typeof value === "object" && value !== null) return value as JsonObject;
  throw rejectCredential("form", "the kubernetes.io claims are no object");
}

/**
 * An unverified claim for the log: its first 80 characters as a JSON string, so that it stays on one line. Any value
 * but a string becomes `not a text`.
 */
export function quoted(claim: unknown): string {
  return typeof claim === "string" ? JSON.stringify(claim.slice(0, 80)) : "not a text";
}
