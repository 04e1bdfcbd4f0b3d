import { setTimeout as sleep } from "node:timers/promises";
import { Code, ConnectError } from "@connectrpc/connect";

const attempts = 5;
const firstWaitMilliseconds = 100;
const jitter = 0.1;

/** The codes that the same call may not get again (istio pkg/security/retry.go). */
const retryable: ReadonlySet<Code> = new Set([
  Code.Canceled,
  Code.DeadlineExceeded,
  Code.ResourceExhausted,
  Code.Aborted,
  Code.Internal,
  Code.Unavailable,
]);

/** What a retried call leaves to whoever runs it. */
export interface RetryOptions {
  readonly signal: AbortSignal;
  /** At least 0 and less than 1. */
  readonly random: () => number;
  /** Hears of each attempt that failed and is followed by another. */
  readonly onRetry: (error: ConnectError) => void;
}

/**
 * Calls up to five times, as pilot-agent does: about 100, 200, 400 and 800 ms apart, each a tenth
 * longer or shorter, and only after errors that another attempt may not meet.
 *
 * @param call Gets how many attempts went before.
 * @throws ConnectError of the last attempt.
 */
export async function callWithRetry<T>(
  call: (retries: number) => Promise<T>,
  { signal, random, onRetry }: RetryOptions,
): Promise<T> {
  for (let retries = 0; ; retries++) {
    try {
      return await call(retries);
    } catch (error) {
      const failure = ConnectError.from(error);
      const isLast = retries + 1 >= attempts || !retryable.has(failure.code);
      if (isLast || signal.aborted) throw failure;
      onRetry(failure);
    }
    const wait = firstWaitMilliseconds * 2 ** retries;
    await sleep(wait * (1 + jitter * (2 * random() - 1)), undefined, { signal });
  }
}
