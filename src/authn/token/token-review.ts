import { CaError } from "../../foundation/errors.ts";
import { createTtlCache } from "../../foundation/ttl-cache.ts";
import type { ClusterApi } from "../../kubernetes/cluster-api.ts";
import { reviewToken, type TokenReviewStatus } from "../../kubernetes/token-review.ts";
import { toHex } from "../../pki/encoding/bytes.ts";
import { parseServiceAccount, type ServiceAccount } from "../../pki/spiffe-id.ts";
import { addSeconds } from "../../pki/x509/validity.ts";
import type { BoundAccount } from "../bound-account.ts";
import { rejectCredential } from "../credential-rejection.ts";

/**
 * An API server's own word on a token (TokenReview, `authentication.k8s.io/v1`): it knows what no
 * signature says, that the pod and the account are still there.
 *
 * @param expiresAt When the token ends by itself: no answer is remembered for longer.
 * @throws CaError `credential-rejected` (`review`, `audience`, `subject`), `cluster-unreachable`.
 */
export type TokenReview = (token: string, expiresAt: Date, now: Date) => Promise<BoundAccount>;

/** A good answer is remembered for so long: what a deleted pod's token is still good for. */
export const goodAnswerSeconds = 15;

/** A bad one: long enough for a client that asks again at once. */
export const badAnswerSeconds = 5;

/** How many answers an isolate remembers for one cluster. */
export const maximumAnswers = 2048;

type Answer = BoundAccount | CaError;

/** @param audiences Sent with every token, and looked for in every answer. */
export function createTokenReview(audiences: readonly string[], api: ClusterApi): TokenReview {
  const answers = createTtlCache<Answer>(maximumAnswers);

  async function review(token: string, now: Date): Promise<Answer> {
    const status = await reviewToken(api, token, audiences, now);
    try {
      return readReview(status, audiences);
    } catch (error) {
      if (error instanceof CaError) return error;
      throw error;
    }
  }

  return async (token, expiresAt, now) => {
    const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(token));
    const key = toHex(new Uint8Array(digest));
    const known = answers.recall(key, now);
    const answer = known ?? (await review(token, now));
    if (!known) {
      const seconds = answer instanceof CaError ? badAnswerSeconds : goodAnswerSeconds;
      const until = addSeconds(now, seconds);
      answers.keep(key, answer, until < expiresAt ? until : expiresAt);
    }
    if (answer instanceof CaError) throw answer;
    return answer;
  };
}

/** Reads the API server's decision, strictly. @throws CaError `credential-rejected` */
function readReview(status: TokenReviewStatus, audiences: readonly string[]): BoundAccount {
  // What is wrong with the token stands there too; it may quote the token.
  if (status.error !== "") throw rejectCredential("review", "the API server rejects the token");
  if (!status.authenticated) throw rejectCredential("review", "the token is not authenticated");
  requireAudience(status, audiences);
  const { username, groups, extra } = status.user;
  if (!groups.includes("system:serviceaccounts")) {
    throw rejectCredential("subject", "the token is no ServiceAccount's");
  }
  return { account: accountOf(username), ...boundObjects(extra) };
}

/** An API server that knows no audiences answers without them, and would pass any token. */
function requireAudience(
  { audiences: confirmed }: TokenReviewStatus,
  audiences: readonly string[],
): void {
  if (confirmed.some((audience) => audiences.includes(audience))) return;
  throw rejectCredential("audience", "the API server confirms none of the audiences");
}

function accountOf(username: string): ServiceAccount {
  const [system, kind, namespace = "", name = "", ...rest] = username.split(":", 5);
  const account = parseServiceAccount(namespace, name);
  if (system === "system" && kind === "serviceaccount" && rest.length === 0 && account) {
    return account;
  }
  throw rejectCredential("subject", "the reviewed user is no ServiceAccount");
}

const prefix = "authentication.kubernetes.io/";

function boundObjects(extra: TokenReviewStatus["user"]["extra"]): Omit<BoundAccount, "account"> {
  const [podName, podUid] = [onlyValue(extra, "pod-name"), onlyValue(extra, "pod-uid")];
  const [nodeName, nodeUid] = [onlyValue(extra, "node-name"), onlyValue(extra, "node-uid")];
  if ((podName === undefined) !== (podUid === undefined)) {
    throw rejectCredential("subject", "the review names half a pod");
  }
  return {
    pod: podName !== undefined && podUid !== undefined ? { name: podName, uid: podUid } : undefined,
    node:
      nodeName === undefined
        ? undefined
        : { name: nodeName, ...(nodeUid !== undefined && { uid: nodeUid }) },
  };
}

function onlyValue(extra: TokenReviewStatus["user"]["extra"], name: string): string | undefined {
  const [value, ...more] = extra[`${prefix}${name}`] ?? [];
  if (more.length > 0) throw rejectCredential("subject", `the review has several of ${name}`);
  return value === "" ? undefined : value;
}
