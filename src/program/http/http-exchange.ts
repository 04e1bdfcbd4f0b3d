import type { ClientRequest, IncomingHttpHeaders, IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { AnswerTooLong, FetchError, ResponseBody, toFetchError } from "../../foundation/fetch.ts";
import type { HeaderFields } from "../../foundation/headers.ts";
import { Handshake } from "../tls-policy.ts";

/** The body of a request, and the limits of its exchange. */
export interface ExchangeOptions {
  readonly body?: string | Uint8Array | undefined;
  /** Ends the exchange, which then rejects with the reason of the signal. */
  readonly signal?: AbortSignal | undefined;
  /** To the last octet of the answer, or to its head if the caller reads the body itself; 30 seconds by default. */
  readonly timeoutMilliseconds?: number | undefined;
}

/** An answer with all of its body, of any status. */
export interface WholeAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly octets: Uint8Array;
}

/** Reads an answer whose head has arrived, and settles the exchange by `done` or `fail`. */
export type AnswerReader<Answer> = (
  response: IncomingMessage,
  done: (answer: Answer) => void,
  fail: (error: FetchError) => void,
) => void;

const usualTimeoutMilliseconds = 30_000;

/** A server may send interim answers (RFC 9110 §15.2). Endless ones would occupy the event loop. */
const maximumInterimAnswers = 16;

/**
 * Sends a request and reads its answer. Whatever the server does, the exchange settles in time, and a
 * failure closes the connection. It is one function because every event of the request may settle one promise.
 *
 * @throws FetchError, or the reason of the signal. `cause` is set only if the connection failed before an answer.
 */
export function exchange<Answer>(
  request: ClientRequest,
  { body, signal, timeoutMilliseconds = usualTimeoutMilliseconds }: ExchangeOptions,
  read: AnswerReader<Answer>,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    let isSettled = false;
    let isAnswered = false;
    let interimAnswers = 0;
    const settle = (): void => {
      isSettled = true;
      clearTimeout(timer);
    };
    const done = (answer: Answer): void => {
      settle();
      resolve(answer);
    };
    const fail = (error: unknown): void => {
      // This also aborts a body that the caller is still reading.
      request.destroy();
      if (isSettled) return;
      settle();
      reject(error);
    };
    const outOfTime = (): FetchError =>
      new FetchError(
        Handshake.isUnderWay(request.socket) ? Handshake.hint : "did not answer in time",
      );
    const abandon = (): void => {
      const { name } = Object(signal?.reason);
      fail(
        name === "TimeoutError" && Handshake.isUnderWay(request.socket)
          ? outOfTime()
          : signal?.reason,
      );
    };
    const timer = setTimeout(() => fail(outOfTime()), timeoutMilliseconds);
    request.on("information", () => {
      if (++interimAnswers > maximumInterimAnswers)
        fail(new FetchError("sent interim answers without end"));
    });
    request.on("response", (response) => {
      isAnswered = true;
      if (isEncoded(response))
        fail(new FetchError("answered in an encoding that was not requested"));
      else read(response, done, fail);
    });
    request.on("error", (error) => fail(isAnswered ? brokenOff() : notAnswered(error)));
    request.on("close", () => {
      signal?.removeEventListener("abort", abandon);
      // Node emits no error in some cases, such as a server that switches protocols.
      if (!isSettled) fail(new FetchError("closed without an answer"));
    });
    signal?.addEventListener("abort", abandon);
    // Node sends the body of a DELETE without its length, so a server would read it as the next request.
    if (body !== undefined) request.setHeader("content-length", Buffer.byteLength(body));
    if (signal?.aborted) abandon();
    else request.end(body);
  });
}

/** The error of a request that got no response. */
export function notAnswered(cause: unknown): FetchError {
  return toFetchError(cause, "did not answer");
}

const brokenOff = (): FetchError => new FetchError("broke off its answer");

/** Whether the body is compressed. The client refuses that, because a few octets can decompress to any number. */
function isEncoded({ headers }: IncomingMessage): boolean {
  return (headers["content-encoding"] ?? "identity") !== "identity";
}

/** Reads a response with all of its body. It fails if the body is longer, or comes in too small pieces. */
export function readWhole(maximumOctets: number): AnswerReader<WholeAnswer> {
  return (response, done, fail) => {
    const chunks: Buffer[] = [];
    let length = 0;
    response.on("data", (chunk: Buffer) => {
      chunks.push(chunk);
      length += chunk.length;
      if (length > maximumOctets) fail(new AnswerTooLong());
      if (ResponseBody.isFragmented(chunks.length, length)) {
        fail(new FetchError("answered in too small pieces"));
      }
    });
    response.on("error", () => fail(brokenOff()));
    response.on("end", () => {
      const octets = chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks);
      done({ status: response.statusCode ?? 0, headers: response.headers, octets });
    });
  };
}

/** Returns a response as soon as its head has arrived; the caller reads the body. */
export const readHead: AnswerReader<IncomingMessage> = (response, done) => done(response);

/**
 * Makes Node's parser drop further requests in octets that the socket has already read. Each would cost as much as
 * an answered one.
 */
export function parseNoMore({ parser }: Socket & { parser?: { onIncoming: () => number } }): void {
  // Node's parser takes 2 for an upgrade, after which it parses nothing as HTTP.
  if (parser) parser.onIncoming = () => 2;
}

/** The header lines of a message as Node reads them. */
export const RawHeaders = {
  /**
   * The headers of a message, with every value of a repeated one, without pseudo-headers. Node's own object keeps only
   * the first `authorization`, and a proxy in front may have verified the second.
   */
  toHeaders(rawHeaders: readonly string[]): Headers {
    const headers = new Headers();
    for (let i = 0; i < rawHeaders.length; i += 2) {
      const name = rawHeaders[i] ?? "";
      if (!name.startsWith(":")) headers.append(name, rawHeaders[i + 1] ?? "");
    }
    return headers;
  },

  /**
   * The header fields of an HTTP/2 request, whose names are in lower case. It avoids `Headers`, whose creation costs as
   * much as encoding a certificate.
   */
  toFields(rawHeaders: readonly string[]): HeaderFields {
    return {
      get: (name) => {
        let value: string | null = null;
        for (let i = 0; i < rawHeaders.length; i += 2) {
          if (rawHeaders[i] !== name) continue;
          const one = withoutSpace(rawHeaders[i + 1] ?? "");
          value = value === null ? one : `${value}, ${one}`;
        }
        return value;
      },
    };
  },
};

/** Removes white space around a header's value (Fetch Standard, "normalize"). */
const withoutSpace = (value: string): string => value.replace(/^[\t\n\r ]+|[\t\n\r ]+$/g, "");
