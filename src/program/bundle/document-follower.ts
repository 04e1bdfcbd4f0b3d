import { Backoff } from "../../foundation/backoff.ts";
import { messageOf } from "../../foundation/errors.ts";
import { FetchError } from "../../foundation/fetch.ts";
import { parseWaitSeconds } from "../../foundation/headers.ts";
import { InterruptibleSleep } from "../../foundation/interruptible-sleep.ts";
import type { Pause } from "../../foundation/pause.ts";
import { HttpClient, parseTarget, type Target } from "../http/http-client.ts";
import type { WholeAnswer } from "../http/http-exchange.ts";
import type { ClientTls } from "../http/tunnel.ts";
import { LongPollWait } from "./internal/long-poll-wait.ts";

/** A kind of document that a CA publishes at a URL of its own. */
export interface DocumentKind<Document> {
  /** What sentences call the document, such as `bundle`. */
  readonly name: string;
  readonly mediaType: string;
  readonly maximumOctets: number;
  /** @throws FetchError whose message continues a sentence that begins with the endpoint. */
  readonly parse: (octets: Uint8Array) => Document;
  /** How soon to ask again if the endpoint does not hold its answers (no long polling). */
  readonly refreshSeconds: (document: Document) => number;
}

type PollResult<Document> = {
  /** How long the endpoint says that it holds its answers; `undefined` if it does not. */
  readonly grantedSeconds: number | undefined;
} & (
  | { readonly outcome: "document"; readonly document: Document; readonly etag: string | undefined }
  | { readonly outcome: "not-modified" }
  | { readonly outcome: "absent" }
);

/** What a follower polls, how it reports, and its bounds of time. */
export interface DocumentFollowerOptions<Document> {
  readonly url: string;
  readonly kind: DocumentKind<Document>;
  /** Reads the TLS options before each request. */
  readonly tlsOptions: () => Promise<ClientTls>;
  /** @returns Whether the document is accepted. A refused one is requested again. */
  readonly onDocument: (document: Document) => boolean;
  /** Called when the endpoint answers that the document has not changed. */
  readonly onConfirmed?: () => void;
  /** Whether 404 means that there is no document. By default it is a failure. */
  readonly mayBeAbsent?: () => boolean;
  /** Called after each request without a readable answer, with a sentence and the error. */
  readonly failed: (message: string, error: unknown) => void;
  /** The longest time between two requests, whatever the document says. */
  readonly longestRefreshSeconds: number;
  /** The longest time that the endpoint is asked to hold its answer. 0 asks for no wait. */
  readonly longestWaitSeconds: number;
  /** How long a response may take beyond the time for which it is held; by default ten seconds. */
  readonly timeoutMilliseconds?: number;
  readonly clock: () => Date;
  readonly random: () => number;
  readonly pause?: Pause | undefined;
  /** Moves the instant of the next request. */
  readonly nextPoll?: (planned: Date) => Date;
}

const usualTimeoutMilliseconds = 10_000;
const defaultRefreshSeconds = 300;

/** When the CA last confirmed the document, and why the last request failed. */
export type FollowerState = Pick<DocumentFollower<never>, "confirmedAt" | "lastError">;

/**
 * Polls a document that a CA publishes. An endpoint that holds its response until the document changes (long polling)
 * is asked again at once; any other is asked at the interval that the document names. A failed or refused response is
 * tried again with a growing pause and without the ETag. If no connection can be made with the current roots, the
 * request is repeated over the connection of the last long poll.
 */
export class DocumentFollower<Document> {
  readonly #options: DocumentFollowerOptions<Document>;
  readonly #target: Target;
  readonly #wait: LongPollWait;
  readonly #sleep: InterruptibleSleep;
  #etag: string | undefined;
  #refreshSeconds = defaultRefreshSeconds;
  #failures = 0;
  /** The client with the connection of the last answer that was held. */
  #last: HttpClient | undefined;
  readonly #asked = Promise.withResolvers<void>();
  /** Whether a request has ended, with or without success. */
  isAsked = false;
  /** The last time at which the CA has confirmed that the document is current, or that there is none. */
  confirmedAt: Date | undefined;
  lastError: string | undefined;

  constructor(options: DocumentFollowerOptions<Document>) {
    this.#options = options;
    this.#target = parseTarget(options.url);
    this.#wait = new LongPollWait(options.longestWaitSeconds);
    this.#sleep = new InterruptibleSleep(options.clock, options.pause);
  }

  /** Resolves after the first answer or failure, or when the follower ends. */
  get asked(): Promise<void> {
    return this.#asked.promise;
  }

  /** Polls until the signal aborts. A failed request does not reject. */
  async run(signal: AbortSignal): Promise<void> {
    const { nextPoll } = this.#options;
    while (!signal.aborted) {
      const planned = await this.#poll(signal);
      this.isAsked = true;
      this.#asked.resolve();
      await this.#sleep.until(nextPoll?.(planned) ?? planned, signal);
    }
    this.#asked.resolve();
    this.#last?.close();
  }

  /** Makes the next request now instead of at its time. */
  pollNow(): void {
    this.#sleep.interrupt();
  }

  /** Makes one request. @returns The time of the next. */
  async #poll(signal: AbortSignal): Promise<Date> {
    const { clock, failed, kind } = this.#options;
    const startedAt = clock();
    const before = this.#etag;
    const heldSeconds = (): number => (clock().getTime() - startedAt.getTime()) / 1000;
    try {
      const result = await this.#fetch(signal);
      if (!this.#apply(result)) return this.#nextRetry();
      this.#failures = 0;
      this.lastError = undefined;
      this.confirmedAt = clock();
      return this.#nextPoll(result, heldSeconds(), this.#etag !== before);
    } catch (error) {
      const isAnswer = error instanceof FetchError;
      this.lastError = isAnswer ? `the ${kind.name} endpoint ${error.message}` : messageOf(error);
      if (this.#mayBeHeld) this.#wait.cut(heldSeconds());
      if (!signal.aborted) failed(this.lastError, error);
      return this.#nextRetry();
    }
  }

  #nextRetry(): Date {
    const { clock, random, longestRefreshSeconds } = this.#options;
    const pause = Backoff.milliseconds(Backoff.usual.mesh, ++this.#failures, random());
    return new Date(clock().getTime() + Math.min(pause, longestRefreshSeconds * 1000));
  }

  #nextPoll(
    { grantedSeconds }: PollResult<Document>,
    heldSeconds: number,
    isChanged: boolean,
  ): Date {
    const { clock, random, longestRefreshSeconds } = this.#options;
    const now = clock();
    // Up to a tenth earlier or later, so that followers do not poll in step.
    const seconds = Math.min(this.#refreshSeconds, longestRefreshSeconds) * (0.9 + 0.2 * random());
    const refresh = new Date(now.getTime() + seconds * 1000);
    if (grantedSeconds === undefined) return refresh;
    const next = this.#wait.answered({ grantedSeconds, heldSeconds, isChanged }, random(), now);
    return next < refresh ? next : refresh;
  }

  /** @returns Whether the result is accepted. */
  #apply(result: PollResult<Document>): boolean {
    const { kind, onConfirmed, onDocument } = this.#options;
    if (result.outcome === "absent") return true;
    if (result.outcome === "not-modified") {
      onConfirmed?.();
      return true;
    }
    if (!onDocument(result.document)) {
      this.lastError = `the ${kind.name} endpoint answered with a ${kind.name} that was refused`;
      return false;
    }
    this.#etag = result.etag;
    this.#refreshSeconds = kind.refreshSeconds(result.document);
    return true;
  }

  /** The ETag for a conditional request. After a failure there is none, so that the endpoint answers at once. */
  get #knownEtag(): string | undefined {
    return this.#failures === 0 ? this.#etag : undefined;
  }

  get #mayBeHeld(): boolean {
    return this.#knownEtag !== undefined && this.#wait.requestedSeconds > 0;
  }

  async #fetch(signal: AbortSignal): Promise<PollResult<Document>> {
    const { kind, mayBeAbsent } = this.#options;
    const [knownEtag, { requestedSeconds }] = [this.#knownEtag, this.#wait];
    const { status, headers, octets } = await this.#send(signal, {
      accept: kind.mediaType,
      "accept-encoding": "identity",
      "user-agent": "rampart",
      ...(knownEtag && { "if-none-match": knownEtag }),
      ...(requestedSeconds > 0 && { prefer: `wait=${requestedSeconds}` }),
    });
    const { etag, "preference-applied": applied } = headers;
    // Without an ETag the endpoint cannot know whether the document has changed.
    const mayHold = requestedSeconds > 0 && etag !== undefined;
    const grantedSeconds =
      mayHold && typeof applied === "string" ? parseWaitSeconds(applied) : undefined;
    if (status === 304 && knownEtag !== undefined)
      return { outcome: "not-modified", grantedSeconds };
    if (status === 404 && mayBeAbsent?.()) return { outcome: "absent", grantedSeconds: undefined };
    if (status !== 200) throw new FetchError(`answered with status ${status}`, { status });
    return { outcome: "document", document: kind.parse(octets), etag, grantedSeconds };
  }

  /**
   * Each request gets a connection of its own, because requests are rare and the TLS options may have changed. If the
   * CA has replaced all its roots since its last response, no known root verifies its server any more. Then the request
   * is sent over the connection of that response, whose server was verified.
   */
  async #send(signal: AbortSignal, headers: Record<string, string>): Promise<WholeAnswer> {
    const { kind, tlsOptions, timeoutMilliseconds = usualTimeoutMilliseconds } = this.#options;
    const heldMilliseconds = this.#mayBeHeld ? 1000 * this.#wait.expectedSeconds : 0;
    const limits = { timeoutMilliseconds: timeoutMilliseconds + heldMilliseconds };
    const request = { target: this.#target, method: "GET", headers, signal, ...limits };
    const last = this.#last;
    const next = new HttpClient(await tlsOptions(), 1);
    try {
      const connected = (): void => last?.close();
      const answer = await next.send({ ...request, connected }, kind.maximumOctets);
      this.#keep(next, answer);
      return answer;
    } catch (error) {
      next.close();
      if (!last) throw error;
      return await last.send(request, kind.maximumOctets).catch(() => {
        throw error;
      });
    }
  }

  /** Keeps the connection of an answer that was held: the next request follows soon. */
  #keep(client: HttpClient, { headers }: WholeAnswer): void {
    const isHeld = headers["preference-applied"] !== undefined;
    if (isHeld) client.settle();
    else client.close();
    this.#last = isHeld ? client : undefined;
  }
}
