import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import { type Fetch, FetchError, type FetchTrusting, type Reach } from "../../foundation/fetch.ts";
import { type ClientTls, createHttpClient, parseTarget } from "./http-client.ts";
import { headersOf } from "./http-exchange.ts";

const maximumConnections = 32;

/** Some servers refuse a request without a user agent, and this client decompresses no answer. */
const usualHeaders = { "accept-encoding": "identity", "user-agent": "rampart" };

/**
 * Node's own `fetch` cannot trust a CA for some requests alone, and a hostile answer can end the process.
 * After it rejects an answer with too many encodings, the body fails with an error that no code handles.
 */
export const fetchTrusting: FetchTrusting = (roots, reach) =>
  fetchWith(roots === undefined ? {} : { ca: roots }, reach);

/** `fetch` with these roots, and the certificate that it shows. */
export function fetchWith(tls: ClientTls, reach?: Reach): Fetch {
  const client = createHttpClient(tls, maximumConnections, reach);
  return async (url, { method = "GET", headers, body, signal }) => {
    const response = await client.open({
      target: parseTarget(url),
      method,
      headers: { ...usualHeaders, ...Object.fromEntries(new Headers(headers)) },
      body: typeof body === "string" || body instanceof Uint8Array ? body : undefined,
      signal: signal ?? undefined,
    });
    return toResponse(response);
  };
}

const bodiless: readonly number[] = [204, 205, 304];

/** @throws FetchError for a status that `Response` cannot carry. */
function toResponse(answer: IncomingMessage): Response {
  const { statusCode: status = 0 } = answer;
  const init = { status, headers: headersOf(answer.rawHeaders) };
  if (status < 200 || status > 599) {
    answer.destroy();
    throw new FetchError(`answered with status ${status}`);
  }
  if (!bodiless.includes(status)) {
    return new Response(Readable.toWeb(answer) as ReadableStream<Uint8Array>, init);
  }
  answer.resume();
  return new Response(null, init);
}
