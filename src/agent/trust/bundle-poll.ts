import { request as requestInPlaintext } from "node:http";
import { type RequestOptions, request as requestOverTls } from "node:https";
import { messageOf } from "../../foundation/errors.ts";
import type { OperationLog } from "../../foundation/event-log.ts";
import { parseWaitSeconds } from "../../foundation/prefer.ts";
import { InterruptibleSleep } from "../identity/interruptible-sleep.ts";
import { retryAt } from "../identity/renewal-plan.ts";
import { type BundleDocument, parseSpiffeBundle } from "./bundle-document.ts";
import { LongPollWait } from "./long-poll-wait.ts";

/** The result of one request to a bundle endpoint. */
type PollResult = {
  /** How long the endpoint said that it holds its answers, if it does. */
  readonly grantedSeconds: number | undefined;
} & (
  | {
      readonly outcome: "bundle";
      readonly bundle: BundleDocument;
      readonly etag: string | undefined;
    }
  | { readonly outcome: "not-modified" }
);

/** A bundle endpoint, and the callbacks for its bundles. */
export interface BundlePollOptions {
  readonly url: string;
  /** Reads the TLS options before each request. */
  readonly tlsOptions: () => Promise<RequestOptions>;
  /** @returns Whether the bundle is accepted. A refused bundle is requested again. */
  readonly onBundle: (bundle: BundleDocument) => boolean;
  readonly onConfirmed: () => void;
  /** The longest time between two requests, whatever the bundle's hint is. */
  readonly longestRefreshSeconds: number;
  /** Whether the request asks the endpoint to hold its answer until the bundle changes. */
  readonly mayWait: boolean;
  /** How long an answer may take beyond the time for which it is held; a default holds without it. */
  readonly timeoutSeconds?: number;
  readonly clock: () => Date;
  readonly random: () => number;
  readonly log: OperationLog;
}

const maximumBytes = 1 << 20;
const usualTimeoutSeconds = 10;
/** How often TCP probes an idle connection. */
const aliveMilliseconds = 15_000;
const defaultRefreshSeconds = 300;

/**
 * Polls a SPIFFE bundle endpoint. An endpoint that holds its answers until the bundle changes is asked
 * without a pause. Any other is asked at the intervals of the bundle's refresh hint.
 */
export class BundlePoll {
  readonly #options: BundlePollOptions;
  readonly #sleep: InterruptibleSleep;
  readonly #wait: LongPollWait;
  #etag: string | undefined;
  #sequence: number | undefined;
  #refreshSeconds = defaultRefreshSeconds;
  #failures = 0;
  /** The last time at which the bundle was known to be current. */
  confirmedAt: Date | undefined;
  lastError: string | undefined;

  constructor(options: BundlePollOptions) {
    this.#options = options;
    this.#sleep = new InterruptibleSleep(options.clock);
    this.#wait = new LongPollWait(options.longestRefreshSeconds);
  }

  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const next = await this.#poll(signal);
      await this.#sleep.until(next, signal);
    }
  }

  /** Makes one request. @returns The time of the next. */
  async #poll(signal: AbortSignal): Promise<Date> {
    const { url, clock, random, log } = this.#options;
    const startedAt = clock();
    const before = this.#sequence;
    const heldSeconds = (): number => (clock().getTime() - startedAt.getTime()) / 1000;
    try {
      const result = await this.#fetch(signal);
      if (!this.#apply(result)) return retryAt(++this.#failures, random(), clock());
      this.#failures = 0;
      this.lastError = undefined;
      this.confirmedAt = clock();
      return this.#nextPoll(result, heldSeconds(), this.#sequence !== before);
    } catch (error) {
      this.lastError = messageOf(error);
      if (this.#mayBeHeld) this.#wait.cut(heldSeconds());
      if (!signal.aborted)
        log.operation({ event: "bundle-unread", level: "warning", url, detail: this.lastError });
      return retryAt(++this.#failures, random(), clock());
    }
  }

  #nextPoll({ grantedSeconds }: PollResult, heldSeconds: number, isChanged: boolean): Date {
    const { clock, random, longestRefreshSeconds } = this.#options;
    const now = clock();
    // A tenth earlier or later, so that no two agents stay in step.
    const seconds = Math.min(this.#refreshSeconds, longestRefreshSeconds) * (0.9 + 0.2 * random());
    const refresh = new Date(now.getTime() + seconds * 1000);
    if (grantedSeconds === undefined) return refresh;
    const next = this.#wait.answered({ grantedSeconds, heldSeconds, isChanged }, random(), now);
    return next < refresh ? next : refresh;
  }

  /** @returns Whether the result is accepted. */
  #apply(result: PollResult): boolean {
    if (result.outcome === "not-modified") {
      this.#options.onConfirmed();
      return true;
    }
    if (!this.#options.onBundle(result.bundle)) {
      this.lastError = "the bundle endpoint answered with a bundle that was refused";
      return false;
    }
    this.#etag = result.etag;
    this.#sequence = result.bundle.sequence;
    this.#refreshSeconds = result.bundle.refreshSeconds;
    return true;
  }

  /** The tag for a conditional request. After a failure there is none, so that the endpoint answers at once. */
  get #knownEtag(): string | undefined {
    return this.#failures === 0 ? this.#etag : undefined;
  }

  get #requestedSeconds(): number {
    return this.#options.mayWait ? this.#wait.requestedSeconds : 0;
  }

  get #mayBeHeld(): boolean {
    return this.#knownEtag !== undefined && this.#requestedSeconds > 0;
  }

  async #fetch(signal: AbortSignal): Promise<PollResult> {
    const { url, tlsOptions, timeoutSeconds = usualTimeoutSeconds } = this.#options;
    const [knownEtag, requestedSeconds] = [this.#knownEtag, this.#requestedSeconds];
    const heldSeconds = this.#mayBeHeld ? this.#wait.expectedSeconds : 0;
    const timeout = AbortSignal.timeout((timeoutSeconds + heldSeconds) * 1000);
    const answer = await fetchText(url, {
      ...(await tlsOptions()),
      agent: false as const,
      signal: AbortSignal.any([signal, timeout]),
      headers: {
        accept: "application/json",
        ...(knownEtag && { "if-none-match": knownEtag }),
        ...(requestedSeconds > 0 && { prefer: `wait=${requestedSeconds}` }),
      },
    });
    const { status, etag, body } = answer;
    // Without a tag the endpoint cannot tell whether the bundle has changed.
    const mayHold = requestedSeconds > 0 && etag !== undefined;
    const grantedSeconds = mayHold ? answer.grantedSeconds : undefined;
    if (status === 304) return { outcome: "not-modified", grantedSeconds };
    if (status !== 200) throw new Error(`the bundle endpoint answered ${status}`);
    const bundle = parseSpiffeBundle(body);
    if (!bundle) throw new Error("the bundle endpoint answered with no SPIFFE bundle");
    return { outcome: "bundle", bundle, etag, grantedSeconds };
  }
}

interface TextAnswer {
  readonly status: number;
  readonly etag: string | undefined;
  readonly grantedSeconds: number | undefined;
  readonly body: string;
}

/** Makes a GET request with TLS options, which `fetch` does not take. It follows no redirect. */
function fetchText(url: string, options: RequestOptions): Promise<TextAnswer> {
  const request = url.startsWith("http:") ? requestInPlaintext : requestOverTls;
  return new Promise((resolve, reject) => {
    const outgoing = request(url, options, (incoming) => {
      const chunks: Buffer[] = [];
      let length = 0;
      incoming.on("data", (chunk: Buffer) => {
        length += chunk.length;
        if (length > maximumBytes) outgoing.destroy(new Error("the bundle is too long"));
        chunks.push(chunk);
      });
      incoming.on("error", reject);
      incoming.on("end", () => {
        const { statusCode: status = 0, headers } = incoming;
        const applied = headers["preference-applied"];
        const grantedSeconds = parseWaitSeconds(typeof applied === "string" ? applied : undefined);
        const body = Buffer.concat(chunks).toString();
        resolve({ status, etag: headers.etag, grantedSeconds, body });
      });
    });
    outgoing.on("socket", (socket) => socket.setKeepAlive(true, aliveMilliseconds));
    outgoing.on("error", reject);
    // A switched protocol ends without an error and without regard to the signal.
    outgoing.on("close", () => reject(new Error("closed without an answer")));
    outgoing.end();
  });
}
