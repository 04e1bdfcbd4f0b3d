import { createTtlCache, isRecent } from "../foundation/caches.ts";
import { CaError, messageOf, rejectCredential } from "../foundation/errors.ts";
import { ClusterApi, type TokenReviewStatus } from "../kubernetes/cluster-api.ts";
import type { BoundAccount } from "../kubernetes/pods.ts";
import { Hex } from "../pki/encoding/bytes.ts";
import { ServiceAccount } from "../pki/spiffe-id.ts";
import { addSeconds, earlier } from "../pki/x509/validity.ts";

/** A token that an API server is asked about. */
export interface ReviewQuestion {
  readonly text: string;
  /** When the token expires: no answer is remembered for longer. */
  readonly expiresAt: Date;
  /** Whether a key of the issuer verified the token. */
  readonly isVerified: boolean;
}

/**
 * Asks the API server of a cluster about a token (TokenReview, `authentication.k8s.io/v1`). Only
 * the API server knows that the pod and the account still exist.
 *
 * @throws CaError `credential-rejected` (`review`, `audience`, `subject`), `cluster-unreachable`,
 *   `cluster-busy`.
 */
export interface TokenReview {
  (question: ReviewQuestion, now: Date): Promise<BoundAccount>;
  /** Finds out whether the API server answers, at most once in ten seconds. It does not reject. */
  readonly probe?: (now: Date) => Promise<void>;
  /** Why the API server did not answer the last `probe`. Failed reviews for callers do not count: a caller could cause one. */
  readonly failure?: () => { readonly at: Date; readonly detail: string } | undefined;
}

/** Two APIs of one server, each with its own limit of requests, so that forged tokens do not use up the limit of verified ones. */
interface ReviewApis {
  readonly verified: ClusterApi;
  readonly unverified: ClusterApi;
}

/** How long a positive answer is remembered. A deleted pod's token stays good for as long. */
export const goodAnswerSeconds = 15;

/** How long a rejection is remembered: long enough for a client that retries at once. */
export const badAnswerSeconds = 5;

/** The most answers of either kind that are remembered for one cluster. */
export const maximumAnswers = 2048;

const probeEverySeconds = 10;

/** A token that belongs to nobody. An API server that reviews tokens answers that it is not valid. */
const nobody = "rampart-looks-whether-tokens-are-reviewed";

/** Creates reviews. */
export const TokenReview = {
  /**
   * Creates the review of tokens by the API server of their cluster. It caches acceptances and rejections.
   * @param audiences Sent with every token, and required in every response.
   */
  create(audiences: readonly string[], apis: ReviewApis): TokenReview {
    // Two caches, so that forged tokens never evict a positive answer.
    const accepted = createTtlCache<BoundAccount>(maximumAnswers);
    const rejected = createTtlCache<CaError>(maximumAnswers);
    const until = (seconds: number, { expiresAt }: ReviewQuestion, now: Date): Date =>
      earlier(addSeconds(now, seconds), expiresAt);

    const ask = async (question: ReviewQuestion, now: Date): Promise<BoundAccount> => {
      const key = await digestOf(question.text);
      const known = accepted.get(key, now);
      if (known) return known;
      const refusal = rejected.get(key, now);
      if (refusal) throw refusal;
      const api = question.isVerified ? apis.verified : apis.unverified;
      try {
        const status = await ClusterApi.reviewToken(api, question.text, audiences, now);
        const account = readReview(status, audiences);
        accepted.set(key, account, now, until(goodAnswerSeconds, question, now));
        return account;
      } catch (error) {
        if (error instanceof CaError && error.refusal.reason === "credential-rejected")
          rejected.set(key, error, now, until(badAnswerSeconds, question, now));
        throw error;
      }
    };
    return Object.assign(ask, probing(apis.verified, audiences));
  },
};

function probing(
  api: ClusterApi,
  audiences: readonly string[],
): Required<Pick<TokenReview, "probe" | "failure">> {
  let probedAt: Date | undefined;
  let failure: ReturnType<NonNullable<TokenReview["failure"]>>;
  const probe = async (now: Date): Promise<void> => {
    if (isRecent(probedAt, probeEverySeconds, now)) return;
    probedAt = now;
    try {
      await ClusterApi.reviewToken(api, nobody, audiences, now);
      failure = undefined;
    } catch (error) {
      // A busy API server has answered.
      const isAway = error instanceof CaError && error.refusal.reason === "cluster-unreachable";
      failure = isAway ? { at: now, detail: messageOf(error) } : undefined;
    }
  };
  return { probe, failure: () => failure };
}

/** SHA-256 of a text, in hexadecimal. */
export async function digestOf(token: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(token));
  return Hex.format(new Uint8Array(digest));
}

/** Reads the API server's decision, strictly. @throws CaError `credential-rejected` */
function readReview(status: TokenReviewStatus, audiences: readonly string[]): BoundAccount {
  // The server's own error is not passed on, because it may quote the token.
  if (status.error !== "") throw rejectCredential("review", "the API server rejects the token");
  if (!status.authenticated) throw rejectCredential("review", "the token is not authenticated");
  requireAudience(status.audiences, audiences);
  const { username, groups, extra } = status.user;
  if (!groups.includes("system:serviceaccounts")) {
    throw rejectCredential("subject", "the token is no ServiceAccount's");
  }
  const account = ServiceAccount.parseUser(username);
  if (!account) throw rejectCredential("subject", "the reviewed user is no ServiceAccount");
  return { account, ...boundObjects(extra) };
}

/** Requires a confirmed audience: an API server without support for audiences confirms none, and accepts tokens for any. */
function requireAudience(confirmed: readonly string[], audiences: readonly string[]): void {
  if (confirmed.some((audience) => audiences.includes(audience))) return;
  throw rejectCredential("audience", "the API server confirms none of the audiences");
}

const prefix = "authentication.kubernetes.io/";

function boundObjects(extra: TokenReviewStatus["user"]["extra"]): Omit<BoundAccount, "account"> {
  const [podName, podUid] = [onlyValue(extra, "pod-name"), onlyValue(extra, "pod-uid")];
  const [nodeName, nodeUid] = [onlyValue(extra, "node-name"), onlyValue(extra, "node-uid")];
  if ((podName === undefined) !== (podUid === undefined)) {
    throw rejectCredential("subject", "the review names half a pod");
  }
  return {
    pod: podName && podUid ? { name: podName, uid: podUid } : undefined,
    node: nodeName ? { name: nodeName, ...(nodeUid && { uid: nodeUid }) } : undefined,
  };
}

function onlyValue(extra: TokenReviewStatus["user"]["extra"], name: string): string | undefined {
  const [value, ...more] = extra[`${prefix}${name}`] ?? [];
  if (more.length > 0) throw rejectCredential("subject", `the review has several of ${name}`);
  return value === "" ? undefined : value;
}
