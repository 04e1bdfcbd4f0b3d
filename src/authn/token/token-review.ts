import * as z from "zod/mini";
import { CaError } from "../../foundation/errors.ts";
import { FetchError } from "../../foundation/json-fetch.ts";
import { createTtlCache } from "../../foundation/ttl-cache.ts";
import { type ClusterApi, clusterUnreachable } from "../../kubernetes/cluster-api.ts";
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
export function createTokenReview(
  audiences: readonly string[],
  { cluster, send }: ClusterApi,
): TokenReview {
  const answers = createTtlCache<Answer>(maximumAnswers);

  async function review(token: string, now: Date): Promise<Answer> {
    const spec = { token, audiences };
    const body = { apiVersion: "authentication.k8s.io/v1", kind: "TokenReview", spec };
    const path = "/apis/authentication.k8s.io/v1/tokenreviews";
    const json = await send({ method: "POST", path, body }, now);
    try {
      return parseTokenReview(json, audiences);
    } catch (error) {
      if (error instanceof CaError) return error;
      throw error instanceof FetchError ? clusterUnreachable(cluster, error) : error;
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

const text = z.string().check(z.maxLength(1024));
const texts = z.array(text).check(z.maxLength(64));

/** Go leaves out what is empty, so absence means false, and nothing. */
const user = z.object({
  username: z._default(text, ""),
  groups: z._default(texts, []),
  extra: z._default(z.record(text, texts), {}),
});

const answerForm = z.object({
  apiVersion: z.literal("authentication.k8s.io/v1"),
  kind: z.literal("TokenReview"),
  status: z.object({
    authenticated: z._default(z.boolean(), false),
    error: z._default(z.string(), ""),
    audiences: z._default(texts, []),
    user: z.prefault(user, {}),
  }),
});

type Status = z.infer<typeof answerForm>["status"];

/**
 * Reads the answer of an API server, strictly.
 *
 * @throws CaError `credential-rejected`; FetchError for what is no TokenReview.
 */
function parseTokenReview(json: unknown, audiences: readonly string[]): BoundAccount {
  const parsed = answerForm.safeParse(json);
  if (!parsed.success) throw new FetchError("answered no TokenReview");
  const { status } = parsed.data;
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
function requireAudience({ audiences: confirmed }: Status, audiences: readonly string[]): void {
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

function boundObjects(extra: Status["user"]["extra"]): Omit<BoundAccount, "account"> {
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

function onlyValue(extra: Status["user"]["extra"], name: string): string | undefined {
  const [value, ...more] = extra[`${prefix}${name}`] ?? [];
  if (more.length > 0) throw rejectCredential("subject", `the review has several of ${name}`);
  return value === "" ? undefined : value;
}
