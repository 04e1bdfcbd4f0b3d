import { rejectCredential } from "../foundation/errors.ts";
import type { BoundAccount, BoundNode, BoundObject } from "../kubernetes/pods.ts";
import type { JsonObject } from "../pki/jose/json-web-signature.ts";
import { isText, requireAudience, requireTime } from "../pki/jose/registered-claims.ts";
import { parseServiceAccount, type ServiceAccount } from "../pki/spiffe-id.ts";

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
