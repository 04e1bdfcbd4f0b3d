import { request as requestInTheClear } from "node:http";
import { type RequestOptions, request as requestOverTls } from "node:https";
import { Alarm } from "./alarm.ts";
import { type BundleDocument, parseBundleDocument } from "./bundle-document.ts";
import { type Clock, type EventLog, sentence } from "./event-log.ts";
import { retryAt } from "./renewal-plan.ts";

/** What one look at a bundle endpoint found. */
type Look =
  | { readonly outcome: "bundle"; readonly bundle: BundleDocument; readonly etag?: string }
  | { readonly outcome: "not-modified" };

/** Where a bundle is, and who wants to know of it. */
export interface BundlePollOptions {
  readonly url: string;
  /** What TLS to that place rests on; read before each look. */
  readonly tlsOptions: () => Promise<RequestOptions>;
  readonly onBundle: (bundle: BundleDocument) => void;
  readonly onConfirmed: () => void;
  /** Looks are never further apart, whatever the bundle's hint is. */
  readonly longestRefreshSeconds: number;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: EventLog;
}

const maximumBytes = 1 << 20;
const timeoutMilliseconds = 10_000;
const defaultRefreshSeconds = 300;

/** Looks at a SPIFFE bundle endpoint in the bundle's own refresh hint, for as long as it runs. */
export class BundlePoll {
  readonly #options: BundlePollOptions;
  readonly #alarm: Alarm;
  #etag: string | undefined;
  #refreshSeconds = defaultRefreshSeconds;
  #failures = 0;
  /** When the bundle was last known to be current. */
  confirmedAt: Date | undefined;
  lastError: string | undefined;

  constructor(options: BundlePollOptions) {
    this.#options = options;
    this.#alarm = new Alarm(options.clock);
  }

  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const next = await this.#look(signal);
      await this.#alarm.until(next, signal);
    }
  }

  /** Looks once. @returns When to look again. */
  async #look(signal: AbortSignal): Promise<Date> {
    const { url, clock, random, log } = this.#options;
    try {
      this.#take(await this.#fetch(signal));
      this.#failures = 0;
      this.lastError = undefined;
      this.confirmedAt = clock();
      // A tenth earlier or later: agents that started together do not stay together.
      const refresh = Math.min(this.#refreshSeconds, this.#options.longestRefreshSeconds);
      const seconds = refresh * (0.9 + 0.2 * random());
      return new Date(clock().getTime() + seconds * 1000);
    } catch (error) {
      this.lastError = sentence(error);
      if (!signal.aborted)
        log({ event: "bundle-unread", level: "warn", url, detail: this.lastError });
      return retryAt(++this.#failures, random(), clock());
    }
  }

  #take(look: Look): void {
    if (look.outcome === "not-modified") this.#options.onConfirmed();
    else {
      this.#etag = look.etag;
      this.#refreshSeconds = look.bundle.refreshSeconds;
      this.#options.onBundle(look.bundle);
    }
  }

  async #fetch(signal: AbortSignal): Promise<Look> {
    const { url, tlsOptions } = this.#options;
    const options = {
      ...(await tlsOptions()),
      agent: false as const,
      signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMilliseconds)]),
      headers: { accept: "application/json", ...(this.#etag && { "if-none-match": this.#etag }) },
    };
    const { status, etag, body } = await fetchText(url, options);
    if (status === 304) return { outcome: "not-modified" };
    if (status !== 200) throw new Error(`the bundle endpoint answered ${status}`);
    const bundle = parseBundleDocument(body);
    if (!bundle) throw new Error("what the bundle endpoint answered is no SPIFFE bundle");
    return { outcome: "bundle", bundle, ...(etag !== undefined && { etag }) };
  }
}

interface TextAnswer {
  readonly status: number;
  readonly etag: string | undefined;
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
        const { statusCode = 0, headers } = incoming;
        resolve({ status: statusCode, etag: headers.etag, body: Buffer.concat(chunks).toString() });
      });
    });
    outgoing.on("error", reject);
    outgoing.end();
  });
}
