import { OperatorError } from "../../../../foundation/errors.ts";
import {
  type Fetch,
  FetchError,
  ResponseBody,
  toFetchError,
} from "../../../../foundation/fetch.ts";
import { RetryAfter } from "../../../../foundation/headers.ts";
import { jsonIn, Members } from "../../../../foundation/json.ts";
import { exitCodes, usageError } from "../../../terminal/command-line.ts";
import { printable } from "../../../terminal/text.ts";

const timeoutMilliseconds = 10_000;
const maximumAnswerOctets = 4 * 1024 * 1024;

/** The answers after which OTLP/HTTP sends the same request again. */
const away: readonly number[] = [429, 502, 503, 504];

/** Sends requests of OTLP to `/v1/logs` of a collector. */
export class CollectorTarget {
  /** Where requests go, whatever way the operator has spelled it. */
  readonly url: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #fetch: Fetch;

  /** @throws OperatorError unless it is a URL. */
  constructor(url: string, headers: Readonly<Record<string, string>>, fetch: Fetch) {
    if (!URL.canParse(url)) throw usageError(`--to: ${url} is not a URL`);
    this.url = `${new URL(url).href.replace(/(?:\/v1\/logs)?\/*$/, "")}/v1/logs`;
    this.#headers = { ...headers, "content-type": "application/json" };
    this.#fetch = fetch;
  }

  /**
   * Sends a request, and resolves when the collector has accepted all of it.
   *
   * @throws FetchError if the same request may be accepted later, OperatorError otherwise.
   */
  async send(request: object): Promise<void> {
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
    requireAccepted(answer);
  }
}

/** @throws OperatorError that ends the verb: OTLP forbids to send such a request again. */
function requireAccepted({ partialSuccess }: Readonly<Record<string, unknown>>): void {
  const { rejectedLogRecords: rejected = 0, errorMessage } = Members.of(partialSuccess);
  if (Number(rejected) === 0) return;
  const why = typeof errorMessage === "string" ? `: ${printable(errorMessage)}` : "";
  throw new OperatorError(`the collector rejected ${printable(String(rejected))} records${why}`, {
    exitCode: exitCodes.broken,
  });
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
