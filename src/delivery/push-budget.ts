import { FetchError } from "../foundation/fetch.ts";
import type { SendRequest } from "../kubernetes/client.ts";

/** The most that one run of the push may use of its platform. */
export interface PushLimits {
  readonly requests: number;
  readonly seconds: number;
  readonly clustersAtOnce: number;
  /** Writes under way to one cluster. */
  readonly writesAtOnce: number;
}

/** Creates a signal that aborts after this long, as `AbortSignal.timeout` does. */
export type Timeout = (milliseconds: number) => AbortSignal;

/** The part of a run's budget that is left for one cluster. */
export interface ClusterBudget {
  readonly writesAtOnce: number;
  /** Sends requests until the budget is spent. Then it refuses them, and ends those under way. */
  readonly limit: (send: SendRequest) => SendRequest;
  readonly isSpent: () => boolean;
}

/** The budget of one run. */
export interface PushBudget {
  readonly isSpent: () => boolean;
  /** A cluster gets a share of the time, so that a slow one leaves the rest to the others. */
  readonly forCluster: () => ClusterBudget;
}

/** The share of a run's time that one cluster may use. */
const clusterShare = 1 / 4;

export function createPushBudget(
  { requests, seconds, writesAtOnce }: PushLimits,
  timeout: Timeout,
  ending: AbortSignal = new AbortController().signal,
): PushBudget {
  const over = AbortSignal.any([ending, timeout(1000 * seconds)]);
  let left = requests;
  const isSpent = (): boolean => left <= 0 || over.aborted;
  return {
    isSpent,
    forCluster: () => {
      const ownTime = timeout(1000 * seconds * clusterShare);
      const signal = AbortSignal.any([over, ownTime]);
      const isOver = (): boolean => isSpent() || signal.aborted;
      const limit =
        (send: SendRequest): SendRequest =>
        async (request) => {
          if (isOver())
            throw new FetchError("gets no more requests in this run: its budget is spent");
          left--;
          try {
            return await send({ ...request, signal });
          } catch (error) {
            if (isRefusedByPlatform(error)) left = 0;
            throw error;
          }
        };
      return { writesAtOnce, limit, isSpent: isOver };
    },
  };
}

/**
 * Cloudflare refuses every further fetch of a run once it has made as many as the plan allows. A Worker
 * cannot know that number beforehand: the free plan has fifty.
 */
function isRefusedByPlatform(error: unknown): boolean {
  const cause = error instanceof Error ? error.cause : undefined;
  return cause instanceof Error && /too many subrequests/i.test(cause.message);
}
