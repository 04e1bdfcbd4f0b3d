import * as z from "zod/mini";
import { FetchError } from "../foundation/fetch.ts";
import { type ClusterApi, clusterUnavailable } from "./cluster-api.ts";

/** The decision of an API server on a token. Nothing in it is compared with the token yet. */
export interface TokenReviewStatus {
  readonly authenticated: boolean;
  /** Empty where the review succeeded; it may quote the token. */
  readonly error: string;
  readonly audiences: readonly string[];
  readonly user: {
    readonly username: string;
    readonly groups: readonly string[];
    readonly extra: Readonly<Record<string, readonly string[]>>;
  };
}

const apiVersion = "authentication.k8s.io/v1";
const kind = "TokenReview";

const text = z.string().check(z.maxLength(1024));
const texts = z.array(text).check(z.maxLength(64));

/** Go omits empty values: an absent one is false or empty. */
const user = z.object({
  username: z._default(text, ""),
  groups: z._default(texts, []),
  extra: z._default(z.record(text, texts), {}),
});

const reviewForm = z.object({
  apiVersion: z.literal(apiVersion),
  kind: z.literal(kind),
  status: z.object({
    authenticated: z._default(z.boolean(), false),
    error: z._default(z.string(), ""),
    audiences: z._default(texts, []),
    user: z.prefault(user, {}),
  }),
});

/** Has an API server review a token. @throws CaError `cluster-unreachable`, `cluster-busy` */
export async function reviewToken(
  { cluster, send }: ClusterApi,
  token: string,
  audiences: readonly string[],
  now: Date,
): Promise<TokenReviewStatus> {
  const body = { apiVersion, kind, spec: { token, audiences } };
  const path = `/apis/${apiVersion}/tokenreviews`;
  const review = reviewForm.safeParse(await send({ method: "POST", path, body }, now));
  if (review.success) return review.data.status;
  throw clusterUnavailable(cluster, new FetchError("answered no TokenReview"));
}
