import { type Pause, pause as systemPause } from "./pause.ts";

/** The first pause between two attempts and the longest. Each failure doubles the pause. */
export interface Backoff {
  readonly firstMilliseconds: number;
  readonly longestMilliseconds: number;
}

/** The pauses between attempts. */
export const Backoff = {
  /**
   * The pause before the next attempt. It doubles with each failure up to the longest. A random part of
   * up to a half is taken off, so that programs do not stay in step. It is at least what a server asks for.
   *
   * @param failures The failures in a row, at least 1.
   * @param random At least 0 and less than 1. Zero, as by default, takes nothing away.
   */
  milliseconds(
    { firstMilliseconds, longestMilliseconds }: Backoff,
    failures: number,
    random = 0,
    retryAfterSeconds = 0,
  ): number {
    const longest = Math.min(longestMilliseconds, firstMilliseconds * 2 ** (failures - 1));
    return Math.max(1000 * retryAfterSeconds, longest * (1 - random / 2));
  },

  /** The most attempts of one call to a CA: those of pilot-agent. */
  callAttempts: 5,

  /** The pauses of everything that is tried again. */
  usual: {
    /** Another writer came first, or a service does not show its last write everywhere yet. */
    contention: { firstMilliseconds: 20, longestMilliseconds: 640 },
    /** Somebody waits for the answer to a call. */
    call: { firstMilliseconds: 100, longestMilliseconds: 800 },
    /** A server is away for a moment. */
    outage: { firstMilliseconds: 250, longestMilliseconds: 30_000 },
    /** A person has to mend something: a program that exits, a missing right, a conflicting writer. */
    repair: { firstMilliseconds: 1_000, longestMilliseconds: 60_000 },
    /** Nobody waits for the call to a CA, and after an outage a whole mesh may call at once. */
    mesh: { firstMilliseconds: 1_000, longestMilliseconds: 150_000 },
  } as const satisfies Readonly<Record<string, Backoff>>,
};

/** Unauthenticated, PermissionDenied, InvalidArgument, Unimplemented. */
const refusingCodes: readonly number[] = [16, 7, 3, 12];

/** Whether this code of gRPC means that a CA refuses the caller or its request: the same call would get the same answer. */
export const isRefusal = (code: number): boolean => refusingCodes.includes(code);

interface Attempts {
  readonly backoff: Backoff;
  /** The most attempts, at least 1. */
  readonly attempts: number;
  /**
   * Returns the seconds to wait that a failure asks for, or 0; `undefined` if no attempt may follow. Not called for
   * the failure of the last attempt.
   */
  readonly retryAfter: (error: unknown) => number | undefined;
  /** At least 0 and less than 1. */
  readonly random: () => number;
  readonly pause?: Pause | undefined;
  /** When it aborts, the pause ends, and no attempt follows. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Repeats an attempt that fails, with growing pauses.
 *
 * @param attempt Gets the number of failures before it.
 * @throws The error of the last attempt.
 */
export async function retry<T>(
  attempt: (failures: number) => Promise<T>,
  { backoff, attempts, retryAfter, random, pause = systemPause, signal }: Attempts,
): Promise<T> {
  for (let failures = 0; ; ) {
    try {
      return await attempt(failures);
    } catch (error) {
      const isLast = ++failures >= attempts || signal?.aborted;
      const seconds = isLast ? undefined : retryAfter(error);
      if (seconds === undefined) throw error;
      await pause(Backoff.milliseconds(backoff, failures, random(), seconds), signal);
      if (signal?.aborted) throw error;
    }
  }
}
