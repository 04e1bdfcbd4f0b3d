import * as z from "zod/mini";
import { isRecent } from "../foundation/caches.ts";
import { CaError } from "../foundation/errors.ts";
import { AnswerTooLong, FetchError } from "../foundation/fetch.ts";
import { Semaphore } from "../foundation/shared-work.ts";
import type { KubernetesClient, KubernetesRequest, SendRequest } from "./client.ts";

/** A cluster whose API server Rampart may use. */
export interface ReachableCluster {
  readonly cluster: string;
  readonly client: KubernetesClient;
  /** Called for each request that the API server fails, but seldom while it is busy ({@link ClusterApi.isBusy}). */
  readonly failed: (cluster: string, error: FetchError) => void;
}

/** The API server of a cluster, for requests that a caller of the CA waits for. */
export interface ClusterApi {
  readonly cluster: string;
  /**
   * @returns The parsed JSON of a good answer, not validated; `undefined` for status 404.
   * @throws CaError `cluster-unreachable`, `cluster-busy`: the same request may succeed later.
   */
  readonly send: (request: KubernetesRequest, now: Date) => Promise<unknown>;
}

/** The most requests of one {@link ClusterApi} that its server has to answer at once. */
export const maximumUnderWay = 32;

/** The time after a failure in which requests to an API server are refused at once, not sent. */
export const backoffSeconds = 1;

/** The least time between two reports that an API server is busy: callers could fill the log with them. */
export const busyReportSeconds = 10;

/** Creates the API of a cluster, and sends requests to it. */
export const ClusterApi = {
  /**
   * Creates an API with a bound on concurrent requests, because callers may ask as often as they like. A request
   * beyond it is refused at once as `cluster-busy`.
   * Each API of one cluster has its own bound and backoff, so that one cannot stop another.
   */
  create({ cluster, client, failed }: ReachableCluster): ClusterApi {
    const send = limitRequests(client.send, (error) => failed(cluster, error));
    return {
      cluster,
      send: async (request, now) => {
        try {
          return await send(request, now);
        } catch (error) {
          throw error instanceof FetchError ? clusterUnavailable(cluster, error) : error;
        }
      },
    };
  },

  /** Whether an API server has too many requests, by its own answer or by the bound of a {@link ClusterApi}. */
  isBusy(error: unknown): boolean {
    return error instanceof FetchError && error.status === tooManyRequests;
  },

  /** Has an API server review a token. Returns also a rejection. @throws CaError `cluster-unreachable`, `cluster-busy` */
  async reviewToken(
    { cluster, send }: ClusterApi,
    token: string,
    audiences: readonly string[],
    now: Date,
  ): Promise<TokenReviewStatus> {
    const body = { apiVersion, kind, spec: { token, audiences } };
    const path = `/apis/${apiVersion}/tokenreviews`;
    const review = reviewSchema.safeParse(await send({ method: "POST", path, body }, now));
    if (review.success) return review.data.status;
    throw clusterUnavailable(cluster, new FetchError("answered no TokenReview"));
  },
};

function limitRequests(send: SendRequest, failed: (error: FetchError) => void): ClusterApi["send"] {
  const permits = new Semaphore(maximumUnderWay);
  let pausesFrom: Date | undefined;
  let pauseError = new FetchError("");
  let busyReportAt: Date | undefined;

  function report(error: FetchError, now: Date): void {
    if (ClusterApi.isBusy(error)) {
      if (isRecent(busyReportAt, busyReportSeconds, now)) return;
      busyReportAt = now;
    }
    failed(error);
  }

  function pause(error: unknown, now: Date): void {
    // No backoff: whoever can make an object large must not be able to stop the requests of all others.
    if (error instanceof AnswerTooLong) return;
    const message = "gets no request: backing off after a failure";
    pauseError = ClusterApi.isBusy(error) ? busy(message) : new FetchError(message);
    pausesFrom = now;
  }

  return async (request, now) => {
    if (isRecent(pausesFrom, backoffSeconds, now)) throw pauseError;
    const answered = permits.tryRun(() => send(request));
    if (!answered) {
      const error = busy("has too many requests to answer");
      report(error, now);
      throw error;
    }
    try {
      return await answered;
    } catch (error) {
      pause(error, now);
      if (error instanceof FetchError) report(error, now);
      throw error;
    }
  };
}

const tooManyRequests = 429;

const busy = (message: string): FetchError => new FetchError(message, { status: tooManyRequests });

/** The refusal for a failed API server, `cluster-busy` or `cluster-unreachable`: it may answer later. */
export function clusterUnavailable(cluster: string, error: FetchError): CaError {
  const reason = ClusterApi.isBusy(error) ? "cluster-busy" : "cluster-unreachable";
  return new CaError({ reason, cluster }, `the API server of ${cluster} ${error.message}`, error);
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

const statusSchema = z.object({
  authenticated: z._default(z.boolean(), false),
  /** Empty where the review succeeded; it may quote the token. */
  error: z._default(z.string(), ""),
  audiences: z._default(texts, []),
  user: z.prefault(user, {}),
});

/** The decision of an API server on a token. Nothing in it is compared with the token yet. */
export type TokenReviewStatus = z.output<typeof statusSchema>;

const reviewSchema = z.object({
  apiVersion: z.literal(apiVersion),
  kind: z.literal(kind),
  status: statusSchema,
});
