import { rejectCredential } from "../../foundation/errors.ts";
import type { Members } from "../../foundation/json-members.ts";
import type { BoundAccount, BoundNode, BoundObject } from "../../kubernetes/pods.ts";
import { RegisteredClaims } from "../../pki/jose/registered-claims.ts";
import { ServiceAccount } from "../../pki/spiffe-id.ts";

/**
 * Reads the claims of a token: its times, its audience, and the account and objects that it is bound to.
 *
 * @throws CaError `credential-rejected` (`form`, `time`, `audience`, `subject`).
 */
export function parseServiceAccountClaims(
  claims: Members,
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

/** The private claims of Kubernetes, if there are any. They must agree with the subject. */
function readBoundObjects(claim: unknown, account: ServiceAccount): BoundObjects {
  if (claim === undefined) return {};
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

function readObject(value: unknown): Members {
  if (typeof value === "object" && value !== null) return value as Members;
  throw rejectCredential("form", "the kubernetes.io claims are no object");
}
