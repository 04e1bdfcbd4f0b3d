import { FetchError } from "../foundation/json-fetch.ts";
import type { SendRequest } from "../kubernetes/client.ts";

/** How much a run of the push may take of its platform. */
export interface PushLimits {
  readonly requests: number;
  readonly seconds: number;
  readonly clustersAtOnce: number;
  /** Writes under way to one cluster. */
  readonly writesAtOnce: number;
}

/** A signal that aborts after so long, as `AbortSignal.timeout` has it. */
export type Timeout = (milliseconds: number) => AbortSignal;

/** What is left of it for one cluster. */
export interface ClusterBudget {
  readonly writesAtOnce: number;
  /** The same API server, until the time or the requests are spent: then every request is refused. */
  readonly limited: (send: SendRequest) => SendRequest;
  /** Whether it was that, and not the cluster, that ended the work. */
  readonly isSpent: () => boolean;
}

/** What is left of it for a run. */
export interface PushBudget {
  readonly isSpent: () => boolean;
  /** Time of its own for a cluster, so that a slow one does not take that of the others. */
  readonly forOne: () => ClusterBudget;
}

/** The share of a run's time that one cluster may take. */
const shareOfOne = 1 / 4;

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
    forOne: () => {
      const ownTime = timeout(1000 * seconds * shareOfOne);
      const signal = AbortSignal.any([over, ownTime]);
      const isOver = (): boolean => isSpent() || signal.aborted;
      const limited =
        (send: SendRequest): SendRequest =>
        async (request) => {
          if (isOver())
            throw new FetchError("was left before its end: nothing is left of this run");
          left--;
          try {
            return await send({ ...request, signal });
          } catch (error) {
            if (isRefusedByPlatform(error)) left = 0;
            throw error;
          }
        };
      return { writesAtOnce, limited, isSpent: isOver };
    },
  };
}

/**
 * Cloudflare refuses a fetch beyond what the plan allows a run: fifty on the free one, which nothing
 * says beforehand. All further ones would fail as well.
 */
function isRefusedByPlatform(error: unknown): boolean {
  const cause = error instanceof Error ? error.cause : undefined;
  return cause instanceof Error && /too many subrequests/i.test(cause.message);
}
