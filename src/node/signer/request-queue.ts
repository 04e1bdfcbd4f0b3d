import { Code, ConnectError } from "@connectrpc/connect";
import { Backoff } from "../../foundation/backoff.ts";
import { isRecent } from "../../foundation/caches.ts";
import { messageOf } from "../../foundation/errors.ts";
import { FetchError } from "../../foundation/fetch.ts";
import { Semaphore } from "../../foundation/shared-work.ts";
import type { WatchedCollection } from "../../kubernetes/watch.ts";

interface QueueParts<Request> {
  /** The requests by key, kept by a watch. The queue removes an answered one before the watch reports it. */
  readonly requests: Pick<WatchedCollection<Request>, "items" | "hasAll" | "fault">;
  /**
   * Answers a request.
   * @param mayAskCa Called before the CA is asked; if it returns `false`, the request must wait for the CA.
   * @returns Whether the request has its answer.
   * @throws FetchError of the API server; any other error is the CA's.
   */
  readonly answer: (request: Request, now: Date, mayAskCa: () => boolean) => Promise<boolean>;
  /** The owner of a request. Owners take turns. */
  readonly ownerOf: (request: Request) => string;
  /** Called for each failure. The next attempt follows by itself. */
  readonly failed: (detail: string, key: string) => void;
  readonly clock: () => Date;
}

interface Attempts {
  readonly count: number;
  readonly last: Date;
  readonly pauseSeconds: number;
}

const atOnce = 8;
/** How many requests are answered before newer ones are considered, whose owners may not have had a turn yet. */
const inRound = 32;

/** Counts the failures of the CA, or of the API server, since its last answer. */
class Outage {
  #failures = 0;
  #failedAt: Date | undefined;
  #pauseSeconds = 0;
  /** The last failure. */
  trouble: string | undefined;

  isPaused(now: Date): boolean {
    return isRecent(this.#failedAt, this.#pauseSeconds, now);
  }

  note(error: unknown, now: Date): void {
    const seconds = error instanceof FetchError ? error.retryAfterSeconds : undefined;
    this.#pauseSeconds =
      Backoff.milliseconds(Backoff.usual.repair, ++this.#failures, 0, seconds) / 1000;
    this.#failedAt = now;
    this.trouble = detailOf(error);
  }

  end(): void {
    [this.#failures, this.trouble] = [0, undefined];
  }
}

/**
 * Answers requests until each has its answer. A request that fails is tried again with growing pauses. A failure of the
 * API server pauses all requests, at least as long as the server asks. A failure of the CA pauses those that need the CA.
 */
export class RequestQueue<Request> {
  readonly #parts: QueueParts<Request>;
  readonly #attempts = new Map<string, Attempts>();
  /** The requests that need the CA. None of them is judged again while the CA is unreachable. */
  readonly #needCa = new Set<string>();
  readonly #ofCa = new Outage();
  readonly #ofServer = new Outage();

  constructor(parts: QueueParts<Request>) {
    this.#parts = parts;
  }

  /** Attempts every request that is due. Rejects only for a defect. */
  async work(): Promise<void> {
    const { items } = this.#parts.requests;
    for (const known of [this.#attempts, this.#needCa])
      for (const key of known.keys()) if (!items.has(key)) known.delete(key);
    const tried = new Set<string>();
    const attempts = new Semaphore(atOnce);
    for (;;) {
      // Bounds memory, because an API server may show ever new names during this loop.
      for (const key of tried) if (!items.has(key)) tried.delete(key);
      const due = this.#due(tried).slice(0, inRound);
      if (due.length === 0) return;
      for (const [key] of due) tried.add(key);
      await Promise.all(due.map((each) => attempts.run(() => this.#attempt(each))));
    }
  }

  /** The due requests in turns: the first of each owner, then the second of each, and so on. */
  #due(tried: ReadonlySet<string>): readonly [string, Request][] {
    const { requests, ownerOf, clock } = this.#parts;
    const now = clock();
    const turns: [string, Request][][] = [];
    const counts = new Map<string, number>();
    for (const each of requests.items) {
      const [key, request] = each;
      const { last, pauseSeconds = 0 } = this.#attempts.get(key) ?? {};
      if (tried.has(key) || isRecent(last, pauseSeconds, now)) continue;
      const owner = ownerOf(request);
      const turn = counts.get(owner) ?? 0;
      counts.set(owner, turn + 1);
      turns[turn] ??= [];
      turns[turn].push(each);
    }
    return turns.flat();
  }

  pending(): number {
    return this.#parts.requests.items.size;
  }

  /** Whether all requests of the cluster have been listed once. */
  hasAll(): boolean {
    return this.#parts.requests.hasAll();
  }

  /** Why requests are not answered or seen; `undefined` after an answer or refusal. */
  trouble(): string | undefined {
    const why = this.#parts.requests.fault();
    const unseen = why && `new requests are not seen: the API server ${why}`;
    return this.pending() > 0 ? (this.#ofServer.trouble ?? this.#ofCa.trouble ?? unseen) : unseen;
  }

  async #attempt([key, request]: [string, Request]): Promise<void> {
    const { requests, answer, failed, clock } = this.#parts;
    const isCaPaused = (): boolean => this.#ofCa.isPaused(clock());
    if (this.#ofServer.isPaused(clock()) || (this.#needCa.has(key) && isCaPaused())) return;
    let asksCa = false;
    const mayAskCa = (): boolean => {
      this.#needCa.add(key);
      asksCa = !isCaPaused();
      return asksCa;
    };
    try {
      if (!(await answer(request, clock(), mayAskCa))) return;
      this.#noteAnswer(asksCa);
      requests.items.delete(key);
    } catch (error) {
      const now = clock();
      const outage = error instanceof FetchError ? this.#ofServer : this.#ofCa;
      if (isGone(error)) requests.items.delete(key);
      else if (isAboutRequest(error)) this.#postpone(key, now, asksCa);
      // If several requests fail at the same time, only the first failure pauses the queue.
      else if (outage.isPaused(now)) return;
      else outage.note(error, now);
      if (!isGone(error)) failed(detailOf(error), key);
    }
  }

  #noteAnswer(isOfCa: boolean): void {
    this.#ofServer.end();
    if (isOfCa) this.#ofCa.end();
  }

  #postpone(key: string, now: Date, isOfCa: boolean): void {
    this.#noteAnswer(isOfCa);
    const count = (this.#attempts.get(key)?.count ?? 0) + 1;
    const pauseSeconds = Backoff.milliseconds(Backoff.usual.mesh, count) / 1000;
    this.#attempts.set(key, { count, last: now, pauseSeconds });
  }
}

const statusOf = (error: unknown): number | undefined =>
  error instanceof FetchError ? error.status : undefined;

/** Whether the request was deleted, or replaced by another one of its name. */
const isGone = (error: unknown): boolean => [404, 409].includes(statusOf(error) ?? 0);

const codesAboutRequest: readonly Code[] = [
  Code.InvalidArgument,
  Code.PermissionDenied,
  Code.ResourceExhausted,
];

/** Whether an error concerns this request alone, so that others may succeed. */
function isAboutRequest(error: unknown): boolean {
  if (error instanceof ConnectError) return codesAboutRequest.includes(error.code);
  return [400, 422].includes(statusOf(error) ?? 0);
}

/** Used instead of the API server's own message, which may quote the request. */
const mayLackRight =
  ", as it does where the account of this program may not `sign` for the signer name";

function detailOf(error: unknown): string {
  if (error instanceof ConnectError) return `the CA refuses: ${error.rawMessage}`;
  const hint = statusOf(error) === 422 ? mayLackRight : "";
  return error instanceof FetchError ? `the API server ${error.message}${hint}` : messageOf(error);
}
