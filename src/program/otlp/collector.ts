import { type Fetch, FetchError, ResponseBody, toFetchError } from "../../foundation/fetch.ts";
import { RetryAfter } from "../../foundation/headers.ts";
import { jsonIn, Members } from "../../foundation/json-members.ts";

/** The answer of a collector after which the request is not sent again. */
export interface CollectorAnswer {
  readonly status: number;
  readonly isAccepted: boolean;
  /** How many items of the request the collector rejected for good. */
  readonly rejected: number;
  /** The collector's message. It must not reach a log unescaped. */
  readonly said: string | undefined;
}

/** OTLP §Size: a longer request is not sent. */
const maximumRequestOctets = 64 * 1024 * 1024;
const maximumAnswerOctets = 4 * 1024 * 1024;

/** The statuses after which OTLP/HTTP sends the same request again. */
const away: readonly number[] = [429, 502, 503, 504];

interface CollectorAt {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly fetch: Fetch;
  /** 10 seconds by default, as OpenTelemetry has it. */
  readonly timeoutMilliseconds?: number | undefined;
}

/** Sends requests of OTLP/HTTP in JSON to one URL of a collector. It follows no redirect. */
export class Collector {
  readonly #at: CollectorAt;

  constructor(at: CollectorAt) {
    this.#at = at;
  }

  /**
   * Sends a request. One over 64 MiB is not sent: it returns the status 413.
   * @param items How many points or spans it has.
   * @param ending Aborts it.
   * @throws FetchError if the same request may be accepted later.
   */
  async send(request: object, items: number, ending?: AbortSignal): Promise<CollectorAnswer> {
    const { url, headers, fetch, timeoutMilliseconds = 10_000 } = this.#at;
    const body = JSON.stringify(request);
    if (body.length > maximumRequestOctets)
      return { status: 413, isAccepted: false, rejected: items, said: undefined };
    const timeout = AbortSignal.timeout(timeoutMilliseconds);
    const sent = fetch(url, {
      method: "POST",
      headers: { ...headers, "content-type": "application/json" },
      body,
      signal: ending ? AbortSignal.any([timeout, ending]) : timeout,
    }).then(async (response) => ({
      response,
      octets: await ResponseBody.readOctets(response, maximumAnswerOctets),
    }));
    const { response, octets } = await sent.catch((error: unknown) => {
      throw toFetchError(error, "did not answer");
    });
    const { status, ok: isAccepted } = response;
    if (away.includes(status)) {
      const retryAfterSeconds = RetryAfter.parse(response.headers.get(RetryAfter.header));
      throw new FetchError(`answered ${status}`, { status, retryAfterSeconds });
    }
    const answer = Members.of(jsonIn(octets));
    const partial = Members.of(answer["partialSuccess"]);
    const [counted = ""] = Object.keys(partial).filter((name) => name.startsWith("rejected"));
    const rejected = isAccepted ? Number(partial[counted] ?? 0) : items;
    const said = isAccepted ? partial["errorMessage"] : answer["message"];
    return {
      status,
      isAccepted,
      // An impossible number counts as all items.
      rejected: rejected >= 0 && rejected < items ? rejected : items,
      said: typeof said === "string" ? said : undefined,
    };
  }
}

/**
 * The pairs of a variable of OpenTelemetry such as `OTEL_EXPORTER_OTLP_HEADERS`: `name=value`, with commas between
 * them, the values percent-encoded.
 * @param values What a decoded value must match; by default what a header may have.
 * @returns `undefined` for malformed text.
 */
export function otelPairs(
  text: string,
  values = /^[\x20-\x7e]+$/,
): Readonly<Record<string, string>> | undefined {
  const pairs: Record<string, string> = {};
  for (const pair of text.split(",")) {
    if (pair.trim() === "") continue;
    const [, name, encoded] = /^\s*([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*=\s*(.*?)\s*$/s.exec(pair) ?? [];
    const value = encoded === undefined ? "" : decoded(encoded);
    if (name === undefined || !values.test(value)) return undefined;
    pairs[name] = value;
  }
  return pairs;
}

/** Decodes percent-encoding; text that is malformed stays as it is. */
function decoded(value: string): string {
  try {
    return decodeURIComponent(value);
  } catch {
    return value;
  }
}
