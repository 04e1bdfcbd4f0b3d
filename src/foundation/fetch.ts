import { causeOf } from "./errors.ts";
import { RetryAfter } from "./headers.ts";
import { JsonBounds, JsonTooLarge, parseJson } from "./json.ts";
import { concatBytes } from "./octets.ts";

/** A request without a good answer: it got none, another status, or no JSON within the bounds. */
export class FetchError extends Error {
  override readonly name = "FetchError";
  /** The status of the answer, if the status is the fault. */
  readonly status: number | undefined;
  /** How long the server asks its client to wait, if it does. */
  readonly retryAfterSeconds: number | undefined;

  constructor(message: string, { status, retryAfterSeconds, ...options }: FetchFault = {}) {
    super(message, options);
    this.status = status;
    this.retryAfterSeconds = retryAfterSeconds;
  }

  /**
   * Why something failed, as the end of a sentence. The text names neither a path nor the address of a service, because
   * `/readyz` shows it to anybody. The log has both.
   */
  static whyOf(fault: unknown): string {
    const cause = fault instanceof FetchError ? fault.cause : undefined;
    if (cause instanceof FetchError) return `: it ${cause.message.replace(/:.*/s, "")}`;
    return ` (${causeOf(fault)})`;
  }
}

interface FetchFault extends ErrorOptions {
  readonly status?: number;
  readonly retryAfterSeconds?: number | undefined;
}

/** An answer whose only fault is its length: the server need not be broken. */
export class AnswerTooLong extends FetchError {
  constructor() {
    super("answered too much");
  }
}

/** Fetches a JSON document from a server that is not trusted. @throws FetchError */
export type JsonFetch = (url: string) => Promise<unknown>;

/**
 * `fetch` of a platform, without bounds: pass a `signal` and `redirect: "manual"`, and read with {@link ResponseBody}.
 * The `body` of a request is a text or octets.
 */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** Only public ones for a URL that a caller or a document has chosen. */
type AddressScope = "anywhere" | "public";

/** How a platform fetches from issuers and API servers. */
export interface Fetching {
  /**
   * The platform's `fetch` for servers whose certificate leads to these roots (PEM), or to the system's.
   * `reach` is `anywhere` by default. A platform that reaches no private addresses may ignore it.
   *
   * @throws ConfigurationError if `roots` is given and the platform trusts only the system's.
   */
  readonly fetchTrusting: (roots: string | undefined, reach?: AddressScope) => Fetch;
  /** How long one fetch may take, from the connection to the last byte: by default 5 seconds. */
  readonly fetchTimeoutMilliseconds?: number | undefined;
  /** Awaits the response of an API server. Meanwhile the platform may run another request in its place. */
  readonly aside?: <Answer>(wait: () => Promise<Answer>) => Promise<Answer>;
}

/**
 * Fetches JSON from any address (`anywhere`), for URLs that the operator chose, or only from public addresses
 * (`public`), for URLs that a caller chose. `public` keeps callers from reaching internal services (SSRF).
 */
export type DocumentFetch = Readonly<Record<AddressScope, JsonFetch>>;

/** Creates fetches of JSON documents. */
export const DocumentFetch = {
  /** Creates both JSON fetches from what the platform can do. */
  create({ fetchTrusting, fetchTimeoutMilliseconds }: Fetching): DocumentFetch {
    const within = (reach: AddressScope): JsonFetch =>
      JsonFetch.create(fetchTrusting(undefined, reach), fetchTimeoutMilliseconds);
    return { anywhere: within("anywhere"), public: within("public") };
  },
};

/** The defaults of a fetch. */
export const Fetching = {
  /** How long a fetch may take unless `fetchTimeoutMilliseconds` says otherwise. */
  usualTimeoutMilliseconds: 5_000,
};

/** The longest response that is read unless a caller sets another bound, in octets. */
const usualMaximumOctets = 256 * 1024;

/** The content of a response, within bounds. */
export const ResponseBody = {
  /**
   * Whether an answer comes in pieces so small that reading it costs far more than its length suggests. In pieces of
   * one octet, 256 KiB take a second of CPU, and in workerd a hundred mebibytes of memory.
   */
  isFragmented(pieces: number, octets: number): boolean {
    return pieces > 256 + octets / 256;
  },

  /** The JSON of an answer of any status, bounded. @throws FetchError */
  async readJson(
    response: Response,
    maximumOctets: number = usualMaximumOctets,
    budget?: AnswerBudget,
  ): Promise<unknown> {
    return ResponseBody.parseJson(
      await ResponseBody.readOctets(response, maximumOctets, budget),
      maximumOctets,
    );
  },

  /** The text of an answer, bounded. @throws FetchError, also for octets that are not UTF-8 */
  async readText(response: Response, maximumOctets: number): Promise<string> {
    const octets = await ResponseBody.readOctets(response, maximumOctets);
    try {
      return new TextDecoder("utf-8", { fatal: true }).decode(octets);
    } catch (error) {
      throw toFetchError(error, "answered no UTF-8");
    }
  },

  /** The octets of an answer, bounded. @throws FetchError */
  async readOctets(
    response: Response,
    maximumOctets: number = usualMaximumOctets,
    budget: AnswerBudget = new AnswerBudget(Number.POSITIVE_INFINITY),
  ): Promise<Uint8Array<ArrayBuffer>> {
    const chunks: Uint8Array[] = [];
    let octets = 0;
    try {
      for await (const chunk of response.body ?? []) {
        budget.take(chunk.length);
        octets += chunk.length;
        chunks.push(chunk);
        if (octets > maximumOctets || ResponseBody.isFragmented(chunks.length, octets)) break;
      }
    } catch (error) {
      throw toFetchError(error, "broke off its answer");
    } finally {
      budget.giveBack(octets);
    }
    if (octets > maximumOctets) throw new AnswerTooLong();
    if (ResponseBody.isFragmented(chunks.length, octets))
      throw new FetchError("answered in too small pieces");
    return concatBytes(...chunks);
  },

  /** The JSON of an answer that has been read. @throws FetchError, also for an object with two members of one name. */
  parseJson(source: string | Uint8Array, maximumOctets: number = usualMaximumOctets): unknown {
    try {
      return parseJson(source, JsonBounds.of(maximumOctets));
    } catch (error) {
      if (error instanceof JsonTooLarge) throw new AnswerTooLong();
      throw new FetchError("did not answer JSON in UTF-8 with one spelling", { cause: error });
    }
  },
};

/** Creates a fetch of JSON. */
export const JsonFetch = {
  /**
   * Creates a fetch of JSON from a server that may hang, redirect, send without end, or answer something else. It
   * follows no redirect, because the operator trusts only the configured URL. Any status but 200 is an error.
   */
  create(fetch: Fetch, timeoutMilliseconds: number = Fetching.usualTimeoutMilliseconds): JsonFetch {
    return async (url) => {
      const response = await fetchWithin(fetch, url, AbortSignal.timeout(timeoutMilliseconds));
      if (response.status !== 200) {
        await response.body?.cancel();
        const { status, headers } = response;
        const retryAfterSeconds = RetryAfter.parse(headers.get(RetryAfter.header));
        throw new FetchError(`answered with status ${status}`, { status, retryAfterSeconds });
      }
      return ResponseBody.readJson(response);
    };
  },
};

/** The memory that all answers of one server may take at once: a server that sends too much fails only its own requests. */
export class AnswerBudget {
  #left: number;

  constructor(octets: number) {
    this.#left = octets;
  }

  /** @throws FetchError if the server has answered too much already. */
  take(octets: number): void {
    if (octets > this.#left) throw new FetchError("answers too much at once");
    this.#left -= octets;
  }

  /** Returns octets that an answer no longer takes. */
  giveBack(octets: number): void {
    this.#left += octets;
  }
}

async function fetchWithin(fetch: Fetch, url: string, signal: AbortSignal): Promise<Response> {
  try {
    return await fetch(url, {
      headers: { accept: "application/json, application/jwk-set+json" },
      redirect: "manual",
      cache: "no-store",
      signal,
    });
  } catch (error) {
    throw toFetchError(error, "did not answer");
  }
}

/**
 * The error for a request that failed: the message and the cause, such as `did not answer (ECONNREFUSED)`. If the server's
 * certificate was refused, it says so instead of the message. A FetchError is returned as it is.
 */
export function toFetchError(error: unknown, message: string): FetchError {
  if (error instanceof FetchError) return error;
  const cause = causeOf(error);
  const isCertificate = /CERT|VERIFY_LEAF/.test(cause);
  const said = isCertificate ? "showed a certificate that is not accepted" : message;
  return new FetchError(`${said} (${cause})`, { cause: error });
}
