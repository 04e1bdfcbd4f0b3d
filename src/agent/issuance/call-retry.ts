import { setTimeout as sleep } from "node:timers/promises";
import { Code, ConnectError } from "@connectrpc/connect";
import { parseRetryAfter, retryAfterHeader } from "../../foundation/http/retry-after.ts";
import { type Backoff, backoffMilliseconds } from "../../foundation/work/backoff.ts";

/** Attempts of one call. */
export const maximumAttempts = 5;

const backoff: Backoff = {
  firstMilliseconds: 100,
  longestMilliseconds: 800,
  spread: [0.9, 1.1],
};

/** The pause after so many attempts of a call. */
export function pauseMilliseconds(attempts: number, random: number): number {
  return backoffMilliseconds(backoff, attempts, random);
}

/** Codes after which the same call may succeed (istio pkg/security/retry.go). */
const retryable: ReadonlySet<Code> = new Set([
  Code.Canceled,
  Code.DeadlineExceeded,
  Code.ResourceExhausted,
  Code.Aborted,
  Code.Internal,
  Code.Unavailable,
]);

/**
 * The seconds for which a CA asks not to be called, or 0. A refusal that no retry can turn into a
 * certificate asks for nothing.
 */
export function secondsToWait({ code, metadata }: ConnectError): number {
  if (!retryable.has(code)) return 0;
  return parseRetryAfter(metadata.get(retryAfterHeader)) ?? 0;
}

/** The dependencies of a retried call. */
export interface RetryOptions {
  /** At least 1, at most {@link maximumAttempts}. */
  readonly attempts: number;
  readonly signal: AbortSignal;
  /** At least 0 and less than 1. */
  readonly random: () => number;
  /** Called after each failed attempt that is followed by another. */
  readonly onRetry: (error: ConnectError) => void;
}

/**
 * Makes so many attempts, up to the five of pilot-agent. The waits between them are 100, 200, 400 and 800 ms,
 * each up to a tenth longer or shorter. Only a retryable code leads to another attempt, and none does where
 * the CA asks for a wait, which is longer than these.
 *
 * @param call Gets the number of earlier attempts.
 * @throws ConnectError The error of the last attempt.
 */
export async function callWithRetry<T>(
  call: (retries: number) => Promise<T>,
  { attempts, signal, random, onRetry }: RetryOptions,
): Promise<T> {
  for (let retries = 0; ; retries++) {
    try {
      return await call(retries);
    } catch (error) {
      const failure = ConnectError.from(error);
      const mayRetry = retryable.has(failure.code) && secondsToWait(failure) === 0;
      const isLast = retries + 1 >= attempts || !mayRetry;
      if (isLast || signal.aborted) throw failure;
      onRetry(failure);
    }
    await sleep(pauseMilliseconds(retries + 1, random()), undefined, { signal });
  }
}
