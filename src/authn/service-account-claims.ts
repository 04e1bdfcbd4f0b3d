import type { BoundAccount, BoundNode, BoundObject } from "../kubernetes/pods.ts";
import { parseServiceAccount, type ServiceAccount } from "../pki/spiffe-id.ts";
import { rejectCredential } from "./credential.ts";
import type { JsonObject } from "./json-web-signature.ts";

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
  requireTime(claims, now);
  requireAudience(claims, audiences);
  const account = parseSubject(sub);
  const { pod, node } = readBoundObjects(claims["kubernetes.io"], account);
  // An issuer that is not Kubernetes may write anything here, and the id is for the log alone.
  return { account, pod, node, tokenId: isText(jti) ? jti : undefined };
}

const subjectPrefix = "system:serviceaccount:";

/** `system:serviceaccount:<namespace>:<name>`, exactly: neither name may hold a colon. */
function parseSubject(sub: unknown): ServiceAccount {
  if (!isText(sub)) throw rejectCredential("form", "sub is no text");
  const colon = sub.indexOf(":", subjectPrefix.length);
  const account = parseServiceAccount(sub.slice(subjectPrefix.length, colon), sub.slice(colon + 1));
  if (!sub.startsWith(subjectPrefix) || colon < 0 || !account) {
    throw rejectCredential("subject", "the token's subject is no ServiceAccount");
  }
  return account;
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
  if (isText(name) && isText(uid)) return { name, uid };
  throw rejectCredential("form", "a bound object without name and uid");
}

function readNode(value: unknown): BoundNode {
  const { name, uid } = readObject(value);
  return uid === undefined && isText(name) ? { name } : readBoundObject(value);
}

function readObject(value: unknown): JsonObject {
  if (typeof value === "object" && value !== null) return value as JsonObject;
  throw rejectCredential("form", "the kubernetes.io claims are no object");
}

/** How far in the future `nbf` and `iat` may lie, for issuers whose clocks are ahead. `exp` gets no leeway. */
export const leewaySeconds = 60;

/**
 * Requires that a token is valid at `now`: `exp` is there, and `nbf` and `iat` are not in the future.
 *
 * @throws CaError `credential-rejected` (`form`, `time`).
 */
export function requireTime(claims: JsonObject, now: Date): void {
  const { exp, nbf = 0, iat = 0 } = claims;
  if (!isInstant(exp)) throw rejectCredential("form", "exp is missing, or no time");
  if (!isInstant(nbf) || !isInstant(iat)) throw rejectCredential("form", "nbf or iat is no time");
  const seconds = now.getTime() / 1000;
  if (exp <= seconds) throw rejectCredential("time", "the token has expired");
  const latest = seconds + leewaySeconds;
  if (nbf > latest) throw rejectCredential("time", "the token is not valid yet");
  if (iat > latest) throw rejectCredential("time", "the token is from the future");
}

/** Longer than any name in Kubernetes, audiences included. */
const maximumTextLength = 1024;
const maximumAudiences = 64;

/** Whether a claim is a text of a bearable length. */
function isText(value: unknown): value is string {
  return typeof value === "string" && value.length <= maximumTextLength;
}

/** NumericDate (RFC 7519 §2), up to the year 9999. */
function isInstant(value: unknown): value is number {
  return typeof value === "number" && value >= 0 && value <= 253402300799;
}

/**
 * Requires one of the accepted audiences. `aud` is a string or a list of strings (RFC 7519 §4.1.3); Istio
 * accepts only the list.
 *
 * @throws CaError `credential-rejected` (`form`, `audience`).
 */
export function requireAudience({ aud }: JsonObject, accepted: readonly string[]): void {
  const audiences: readonly unknown[] = Array.isArray(aud) ? aud : [aud];
  if (audiences.length > maximumAudiences || !audiences.every(isText)) {
    throw rejectCredential("form", "aud is neither text nor a list of texts");
  }
  if (!audiences.some((audience) => accepted.includes(audience))) {
    throw rejectCredential("audience", "the token is meant for another audience");
  }
}
