import { Code, ConnectError } from "@connectrpc/connect";
import { messageOf } from "../../foundation/errors.ts";
import { FetchError } from "../../foundation/fetch.ts";
import { type Backoff, backoffMilliseconds } from "../../foundation/pause.ts";
import { Semaphore } from "../../foundation/shared-work.ts";

interface QueueParts<Request> {
  /** By key, as a watch keeps them. An answered request is removed before the watch hears of it. */
  readonly items: Map<string, Request>;
  /**
   * Answers a request.
   *
   * @throws FetchError of the API server; any other error is the CA's.
   */
  readonly answer: (request: Request, now: Date) => Promise<void>;
  /** Called for each failure. The next attempt follows by itself. */
  readonly failed: (detail: string, key: string) => void;
  readonly clock: () => Date;
}

interface Attempts {
  readonly count: number;
  readonly next: Date;
}

const ofRequest: Backoff = { firstMilliseconds: 1_000, longestMilliseconds: 300_000 };
const ofServer: Backoff = { firstMilliseconds: 1_000, longestMilliseconds: 30_000 };
const atOnce = 8;

/**
 * Answers requests until each has its answer. A request that fails is tried again with growing pauses. A
 * failure of the CA or of the API server pauses all requests, for as long as the API server asks.
 */
export function createRequestQueue<Request>(parts: QueueParts<Request>) {
  const { items, answer, failed, clock } = parts;
  const attempts = new Map<string, Attempts>();
  let failures = 0;
  let trouble: string | undefined;
  let pausedUntil = new Date(0);

  function pauseAll(error: unknown, now: Date): void {
    const seconds = error instanceof FetchError ? error.retryAfterSeconds : undefined;
    const milliseconds = seconds ? 1000 * seconds : backoffMilliseconds(ofServer, ++failures);
    pausedUntil = new Date(now.getTime() + milliseconds);
    trouble = detailOf(error);
  }

  function postpone(key: string, now: Date): void {
    const count = (attempts.get(key)?.count ?? 0) + 1;
    const next = new Date(now.getTime() + backoffMilliseconds(ofRequest, count));
    attempts.set(key, { count, next });
  }

  async function attempt([key, request]: [string, Request]): Promise<void> {
    if (clock() < pausedUntil) return;
    try {
      await answer(request, clock());
      [failures, trouble] = [0, undefined];
      items.delete(key);
    } catch (error) {
      const now = clock();
      if (isGone(error)) items.delete(key);
      else if (isAboutRequest(error)) postpone(key, now);
      // Of several answers under way, one failure speaks for all.
      else if (now < pausedUntil) return;
      else pauseAll(error, now);
      if (!isGone(error)) failed(detailOf(error), key);
    }
  }

  return {
    /** Answers every request that is due. Rejects only by a defect. */
    work: async (): Promise<void> => {
      for (const key of attempts.keys()) if (!items.has(key)) attempts.delete(key);
      const now = clock();
      const due = [...items].filter(([key]) => now >= (attempts.get(key)?.next ?? now));
      const room = new Semaphore(atOnce);
      await Promise.all(due.map((each) => room.run(() => attempt(each))));
    },
    pending: () => items.size,
    /** The fault that keeps all requests from being answered; `undefined` since the last answer. */
    trouble: () => trouble,
  };
}

export type RequestQueue = Readonly<ReturnType<typeof createRequestQueue>>;

const statusOf = (error: unknown): number | undefined =>
  error instanceof FetchError ? error.status : undefined;

/** The request was deleted, or replaced by another one of its name. */
const isGone = (error: unknown): boolean => [404, 409].includes(statusOf(error) ?? 0);

const codesAboutRequest: readonly Code[] = [
  Code.InvalidArgument,
  Code.PermissionDenied,
  Code.ResourceExhausted,
];

/** Whether another request may succeed meanwhile. */
function isAboutRequest(error: unknown): boolean {
  if (error instanceof ConnectError) return codesAboutRequest.includes(error.code);
  return [400, 422].includes(statusOf(error) ?? 0);
}

function detailOf(error: unknown): string {
  if (error instanceof ConnectError) return `the CA refuses: ${error.rawMessage}`;
  return error instanceof FetchError ? `the API server ${error.message}` : messageOf(error);
}
