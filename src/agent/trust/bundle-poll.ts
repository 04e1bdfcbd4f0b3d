import { request as requestInTheClear } from "node:http";
import { type RequestOptions, request as requestOverTls } from "node:https";
import { messageOf } from "../../foundation/errors.ts";
import type { OperationLog } from "../../foundation/event-log.ts";
import { parseWaitSeconds } from "../../foundation/prefer.ts";
import { InterruptibleSleep } from "../identity/interruptible-sleep.ts";
import { retryAt } from "../identity/renewal-plan.ts";
import { type BundleDocument, parseSpiffeBundle } from "./bundle-document.ts";
import { BundleWait } from "./bundle-wait.ts";

/** What one look at a bundle endpoint found. */
type Look = {
  /** How long the endpoint would have held its answer, if it does so. */
  readonly grantedSeconds: number | undefined;
} & (
  | {
      readonly outcome: "bundle";
      readonly bundle: BundleDocument;
      readonly etag: string | undefined;
    }
  | { readonly outcome: "not-modified" }
);

/** Where a bundle is, and who wants to know of it. */
export interface BundlePollOptions {
  readonly url: string;
  /** What TLS to that place rests on; read before each look. */
  readonly tlsOptions: () => Promise<RequestOptions>;
  /** @returns Whether it is taken; one that is not is asked for again. */
  readonly onBundle: (bundle: BundleDocument) => boolean;
  readonly onConfirmed: () => void;
  /** Looks are never further apart, whatever the bundle's hint is. */
  readonly longestRefreshSeconds: number;
  /** Whether the endpoint is asked to hold its answer until the bundle is another. */
  readonly mayWait: boolean;
  readonly clock: () => Date;
  readonly random: () => number;
  readonly log: OperationLog;
}

const maximumBytes = 1 << 20;
const timeoutSeconds = 10;
/** So often, a connection on which nothing comes is tested. */
const aliveMilliseconds = 15_000;
const defaultRefreshSeconds = 300;

/**
 * Looks at a SPIFFE bundle endpoint for as long as it runs: always, where the endpoint holds its
 * answers until there is another bundle; else in the bundle's own refresh hint.
 */
export class BundlePoll {
  readonly #options: BundlePollOptions;
  readonly #sleep: InterruptibleSleep;
  readonly #wait: BundleWait;
  #etag: string | undefined;
  #sequence: number | undefined;
  #refreshSeconds = defaultRefreshSeconds;
  #failures = 0;
  /** When the bundle was last known to be current. */
  confirmedAt: Date | undefined;
  lastError: string | undefined;

  constructor(options: BundlePollOptions) {
    this.#options = options;
    this.#sleep = new InterruptibleSleep(options.clock);
    this.#wait = new BundleWait(options.longestRefreshSeconds);
  }

  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const next = await this.#look(signal);
      await this.#sleep.until(next, signal);
    }
  }

  /** Looks once. @returns When to look again. */
  async #look(signal: AbortSignal): Promise<Date> {
    const { url, clock, random, log } = this.#options;
    const begun = clock();
    const before = this.#sequence;
    const heldSeconds = (): number => (clock().getTime() - begun.getTime()) / 1000;
    try {
      const look = await this.#fetch(signal);
      if (!this.#take(look)) return retryAt(++this.#failures, random(), clock());
      this.#failures = 0;
      this.lastError = undefined;
      this.confirmedAt = clock();
      return this.#nextLook(look, heldSeconds(), this.#sequence !== before);
    } catch (error) {
      this.lastError = messageOf(error);
      if (this.#isHeld) this.#wait.cut(heldSeconds());
      if (!signal.aborted)
        log.operation({ event: "bundle-unread", level: "warning", url, detail: this.lastError });
      return retryAt(++this.#failures, random(), clock());
    }
  }

  #nextLook({ grantedSeconds }: Look, heldSeconds: number, isNews: boolean): Date {
    const { clock, random, longestRefreshSeconds } = this.#options;
    const now = clock();
    // A tenth earlier or later: agents that started together do not stay together.
    const seconds = Math.min(this.#refreshSeconds, longestRefreshSeconds) * (0.9 + 0.2 * random());
    const refresh = new Date(now.getTime() + seconds * 1000);
    if (grantedSeconds === undefined) return refresh;
    const next = this.#wait.answered({ grantedSeconds, heldSeconds, isNews }, random(), now);
    return next < refresh ? next : refresh;
  }

  /** @returns Whether what was found is the bundle from now on. */
  #take(look: Look): boolean {
    if (look.outcome === "not-modified") {
      this.#options.onConfirmed();
      return true;
    }
    if (!this.#options.onBundle(look.bundle)) {
      this.lastError = "the bundle endpoint answered with a bundle that is refused";
      return false;
    }
    this.#etag = look.etag;
    this.#sequence = look.bundle.sequence;
    this.#refreshSeconds = look.bundle.refreshSeconds;
    return true;
  }

  /** What is known already; in trouble nothing, because then it matters whether there is an answer. */
  get #known(): string | undefined {
    return this.#failures === 0 ? this.#etag : undefined;
  }

  get #askedSeconds(): number {
    return this.#options.mayWait ? this.#wait.askedSeconds : 0;
  }

  get #isHeld(): boolean {
    return this.#known !== undefined && this.#askedSeconds > 0;
  }

  async #fetch(signal: AbortSignal): Promise<Look> {
    const { url, tlsOptions } = this.#options;
    const [known, askedSeconds] = [this.#known, this.#askedSeconds];
    const heldSeconds = this.#isHeld ? this.#wait.expectedSeconds : 0;
    const timeout = AbortSignal.timeout((timeoutSeconds + heldSeconds) * 1000);
    const answer = await fetchText(url, {
      ...(await tlsOptions()),
      agent: false as const,
      signal: AbortSignal.any([signal, timeout]),
      headers: {
        accept: "application/json",
        ...(known && { "if-none-match": known }),
        ...(askedSeconds > 0 && { prefer: `wait=${askedSeconds}` }),
      },
    });
    const { status, etag, body } = answer;
    // Without a tag it has nothing to compare with, and cannot wait.
    const mayHold = askedSeconds > 0 && etag !== undefined;
    const grantedSeconds = mayHold ? answer.grantedSeconds : undefined;
    if (status === 304) return { outcome: "not-modified", grantedSeconds };
    if (status !== 200) throw new Error(`the bundle endpoint answered ${status}`);
    const bundle = parseSpiffeBundle(body);
    if (!bundle) throw new Error("what the bundle endpoint answered is no SPIFFE bundle");
    return { outcome: "bundle", bundle, etag, grantedSeconds };
  }
}

interface TextAnswer {
  readonly status: number;
  readonly etag: string | undefined;
  readonly grantedSeconds: number | undefined;
  readonly body: string;
}

/** A GET. Unlike `fetch` it can be told whom to believe; it follows no redirect. */
function fetchText(url: string, options: RequestOptions): Promise<TextAnswer> {
  const request = url.startsWith("http:") ? requestInTheClear : requestOverTls;
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
    // A protocol that was switched, for one, ends without an error, and past its time.
    outgoing.on("close", () => reject(new Error("closed without an answer")));
    outgoing.end();
  });
}
