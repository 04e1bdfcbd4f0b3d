import { isSafeToFetch } from "../../../../foundation/addresses.ts";
import { OperatorError } from "../../../../foundation/errors.ts";
import {
  type Fetch,
  FetchError,
  ResponseBody,
  toFetchError,
} from "../../../../foundation/fetch.ts";
import { RetryAfter } from "../../../../foundation/headers.ts";
import { jsonIn, Members } from "../../../../foundation/json.ts";
import { usageError } from "../../../terminal/command-line.ts";
import { printable } from "../../../terminal/text.ts";

const timeoutMilliseconds = 10_000;
const maximumAnswerOctets = 4 * 1024 * 1024;

/** The answers after which OTLP/HTTP sends the same request again. */
const away: readonly number[] = [429, 502, 503, 504];

/** What a collector has rejected of a request for good, and why, as far as it says so. */
export interface Rejection {
  readonly count: number;
  readonly why: string | undefined;
}

/** Sends requests of OTLP to `/v1/logs` of a collector. */
export class CollectorTarget {
  /** Where requests go, whatever way the operator has spelled it. */
  readonly url: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #fetch: Fetch;

  /** @throws OperatorError unless it is an https URL, or one of this machine itself. */
  constructor(url: string, headers: Readonly<Record<string, string>>, fetch: Fetch) {
    if (!isSafeToFetch(url))
      throw usageError("--to must be an https URL: who got what is sent there");
    this.url = `${new URL(url).href.replace(/(?:\/v1\/logs)?\/*$/, "")}/v1/logs`;
    this.#headers = { ...headers, "content-type": "application/json" };
    this.#fetch = fetch;
  }

  /**
   * Sends a request, and resolves when the collector has accepted it.
   *
   * @param count How many records the request has.
   * @returns What the collector rejected of it. OTLP forbids to send that again.
   * @throws FetchError if the same request may be accepted later, OperatorError otherwise.
   */
  async send(request: object, count: number): Promise<Rejection | undefined> {
    const notAnswered = (error: unknown) => toFetchError(error, "did not answer");
    const response = await this.#fetch(this.url, {
      method: "POST",
      headers: this.#headers,
      body: JSON.stringify(request),
      signal: AbortSignal.timeout(timeoutMilliseconds),
    }).catch((error: unknown) => {
      throw notAnswered(error);
    });
    const octets = await ResponseBody.readOctets(response, maximumAnswerOctets).catch(
      (error: unknown) => {
        throw notAnswered(error);
      },
    );
    const { status } = response;
    const answer = Members.of(jsonIn(octets));
    if (away.includes(status)) {
      const retryAfterSeconds = RetryAfter.parse(response.headers.get(RetryAfter.header));
      throw new FetchError(`answered ${status}`, { status, retryAfterSeconds });
    }
    if (!response.ok) {
      const said = typeof answer["message"] === "string" ? `: ${printable(answer["message"])}` : "";
      throw new OperatorError(`the collector answered ${status}${said}`);
    }
    return rejectionIn(answer, count);
  }
}

function rejectionIn(
  { partialSuccess }: Readonly<Record<string, unknown>>,
  count: number,
): Rejection | undefined {
  const { rejectedLogRecords = 0, errorMessage } = Members.of(partialSuccess);
  const rejected = Number(rejectedLogRecords);
  if (rejected === 0) return undefined;
  return {
    // No number that can be right may be any.
    count: rejected > 0 && rejected < count ? rejected : count,
    why: typeof errorMessage === "string" ? printable(errorMessage) : undefined,
  };
}

/** The headers that `OTEL_EXPORTER_OTLP_HEADERS` has, `name=value` with commas between them, percent-encoded. */
export function headersIn(text = ""): Readonly<Record<string, string>> {
  const pairs = text.split(",").flatMap((pair) => {
    if (pair.trim() === "") return [];
    const [, name, value] =
      /^\s*([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*=\s*([\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)\s*$/.exec(
        pair,
      ) ?? [];
    if (name === undefined || value === undefined) {
      throw usageError("OTEL_EXPORTER_OTLP_HEADERS must be name=value, with commas between them");
    }
    return [[name, decoded(value)]];
  });
  return Object.fromEntries(pairs);
}

function decoded(value: string): string {
  try {
    return decodeURIComponent(value);
  } catch {
    return value;
  }
}
