import { Code, ConnectError } from "@connectrpc/connect";
import { messageOf } from "../../foundation/errors.ts";
import { FetchError } from "../../foundation/fetch.ts";
import { type Backoff, backoffMilliseconds } from "../../foundation/pause.ts";
import { Semaphore } from "../../foundation/shared-work.ts";
import type { WatchedCollection } from "../../kubernetes/watch.ts";

interface QueueParts<Request> {
  /** The requests by key, as a watch keeps them. An answered one is removed before the watch hears of it. */
  readonly requests: Pick<WatchedCollection<Request>, "items" | "hasAll">;
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
export class RequestQueue<Request> {
  readonly #parts: QueueParts<Request>;
  readonly #attempts = new Map<string, Attempts>();
  #failures = 0;
  #trouble: string | undefined;
  #pausedUntil = new Date(0);

  constructor(parts: QueueParts<Request>) {
    this.#parts = parts;
  }

  /** Answers every request that is due. Rejects only by a defect. */
  async work(): Promise<void> {
    const { items } = this.#parts.requests;
    for (const key of this.#attempts.keys()) if (!items.has(key)) this.#attempts.delete(key);
    const now = this.#parts.clock();
    const due = [...items].filter(([key]) => now >= (this.#attempts.get(key)?.next ?? now));
    const room = new Semaphore(atOnce);
    await Promise.all(due.map((each) => room.run(() => this.#attempt(each))));
  }

  pending(): number {
    return this.#parts.requests.items.size;
  }

  /** Whether all requests of the cluster have been listed once. */
  hasAll(): boolean {
    return this.#parts.requests.hasAll();
  }

  /** The fault that keeps all requests from being answered; `undefined` since the last answer or refusal. */
  trouble(): string | undefined {
    return this.pending() > 0 ? this.#trouble : undefined;
  }

  async #attempt([key, request]: [string, Request]): Promise<void> {
    const { requests, answer, failed, clock } = this.#parts;
    if (clock() < this.#pausedUntil) return;
    try {
      await answer(request, clock());
      this.#noteAnswer();
      requests.items.delete(key);
    } catch (error) {
      const now = clock();
      if (isGone(error)) requests.items.delete(key);
      else if (isAboutRequest(error)) this.#postpone(key, now);
      // Of several answers under way, one failure speaks for all.
      else if (now < this.#pausedUntil) return;
      else this.#pauseAll(error, now);
      if (!isGone(error)) failed(detailOf(error), key);
    }
  }

  #noteAnswer(): void {
    [this.#failures, this.#trouble] = [0, undefined];
  }

  #postpone(key: string, now: Date): void {
    this.#noteAnswer();
    const count = (this.#attempts.get(key)?.count ?? 0) + 1;
    const next = new Date(now.getTime() + backoffMilliseconds(ofRequest, count));
    this.#attempts.set(key, { count, next });
  }

  #pauseAll(error: unknown, now: Date): void {
    const seconds = error instanceof FetchError ? error.retryAfterSeconds : undefined;
    const milliseconds = seconds ? 1000 * seconds : backoffMilliseconds(ofServer, ++this.#failures);
    this.#pausedUntil = new Date(now.getTime() + milliseconds);
    this.#trouble = detailOf(error);
  }
}

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

/** The sentence of the API server itself may quote what it was sent. */
const mayLackRight =
  ", as it does where the account of this program may not `sign` for the signer name";

function detailOf(error: unknown): string {
  if (error instanceof ConnectError) return `the CA refuses: ${error.rawMessage}`;
  const hint = statusOf(error) === 422 ? mayLackRight : "";
  return error instanceof FetchError ? `the API server ${error.message}${hint}` : messageOf(error);
}
