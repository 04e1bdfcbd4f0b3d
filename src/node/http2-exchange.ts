import { once } from "node:events";
import type { IncomingHttpHeaders, ServerHttp2Stream } from "node:http2";
import type { Readable, Writable } from "node:stream";
import { Code, ConnectError } from "@connectrpc/connect";
import { maximumBodyOctets } from "../transport/request-body.ts";
import type { StreamedRequest, StreamedResponse } from "./site.ts";

/** The parts of a request that say where it goes. */
export interface Target {
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  readonly url: string;
}

/** A host for requests whose own word for it nobody reads. */
export const anyOrigin = "https://rampart";

/** A method for which there is no request of fetch: it throws. */
export function isUnknownToFetch(method: string): boolean {
  return /^(?:CONNECT|TRACE|TRACK)$/i.test(method);
}

/** Where a request goes, or nothing for one that does not go to a path, or goes nowhere in fetch. */
export function targetOf(headers: IncomingHttpHeaders): Target | undefined {
  const { ":method": method = "", ":path": whole = "" } = headers;
  if (!whole.startsWith("/") || isUnknownToFetch(method)) return undefined;
  const [path = "/"] = whole.split("?", 1);
  return { method, path, url: `${anyOrigin}${whole}` };
}

/**
 * The headers as they came, every value of one that came twice: Node's own object keeps only the first
 * `authorization`, and who stands in front may have looked at the other one.
 */
export function headersOf(rawHeaders: readonly string[]): Headers {
  const headers = new Headers();
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? "";
    if (!name.startsWith(":")) headers.append(name, rawHeaders[i + 1] ?? "");
  }
  return headers;
}

/** Aborted when the stream closes before its answer. */
export function hangUpOf(stream: ServerHttp2Stream): AbortSignal {
  const abort = new AbortController();
  stream.once("close", () => {
    // What has been answered, nobody needs to be told to stop; a reset ends the answer, too.
    if (stream.aborted || !stream.writableEnded) {
      abort.abort(callerGone());
    }
  });
  return abort.signal;
}

/** A stream of HTTP/2 as a request of Connect's. */
export function toUniversalRequest(
  stream: ServerHttp2Stream,
  { method, url }: Target,
  header: Headers,
): StreamedRequest {
  // Who stops reading early has an answer to send.
  const body = stream.iterator({ destroyOnReturn: false });
  return { httpVersion: "2.0", method, url, header, body, signal: hangUpOf(stream) };
}

export function callerGone(): ConnectError {
  return new ConnectError("the caller is gone", Code.Canceled);
}

/** Sends an answer with its trailers; without a body, they are all of it (gRPC's Trailers-Only). */
export async function sendUniversalResponse(
  stream: ServerHttp2Stream,
  { status, header, octets, body, trailer }: StreamedResponse,
): Promise<void> {
  const headers = { ":status": status, ...(header && Object.fromEntries(header)) };
  const trailers = trailer && Object.fromEntries(trailer);
  const send = (chunk: Uint8Array): boolean => {
    if (!stream.headersSent) stream.respond(headers, { waitForTrailers: trailers !== undefined });
    return stream.write(chunk);
  };
  if (octets) await skipRest(stream);
  if (octets?.length && !stream.destroyed) send(octets);
  for await (const chunk of body ?? []) {
    if (stream.destroyed) return;
    if (!send(chunk)) await drained(stream);
  }
  if (stream.destroyed) return;
  if (!stream.headersSent) {
    stream.respond({ ...headers, ...trailers }, { endStream: true });
    return hangUp(stream);
  }
  if (trailers) {
    stream.once("wantTrailers", () => {
      stream.sendTrailers(trailers);
      hangUp(stream);
    });
  }
  stream.end(() => trailers || hangUp(stream));
}

/** How much more of a request is read once its answer is known, and for how long. */
const rest = { octets: maximumBodyOctets, milliseconds: 1000 };

/**
 * Reads what is left of a request and throws it away, within limits: a stream may be answered and reset
 * while its request is still being sent (RFC 9113 §8.1), but curl, for one, takes that for a failure, and
 * over HTTP/1.1 there is no such thing.
 */
export async function skipRest(stream: Readable): Promise<void> {
  if (stream.readableEnded || stream.destroyed) return;
  const skipped = Promise.withResolvers<void>();
  const timer = setTimeout(skipped.resolve, rest.milliseconds);
  let octets = 0;
  stream.on("data", (chunk: Buffer) => {
    octets += chunk.length;
    if (octets > rest.octets) skipped.resolve();
  });
  stream.once("end", skipped.resolve);
  stream.once("close", skipped.resolve);
  stream.resume();
  await skipped.promise;
  clearTimeout(timer);
}

/** What is left of a request even now, nobody will read. */
function hangUp(stream: ServerHttp2Stream): void {
  if (!stream.readableEnded) setImmediate(() => stream.close());
}

/** Resolves once there is room for more, or nobody who would read it. */
export async function drained(stream: Writable): Promise<void> {
  await Promise.race([once(stream, "drain"), once(stream, "close")]);
}

/** Sends the answer of a fetch handler, whole. */
export async function sendResponse(stream: ServerHttp2Stream, response: Response): Promise<void> {
  const octets = Buffer.from(await response.arrayBuffer());
  await skipRest(stream);
  if (stream.destroyed) return;
  stream.respond({ ":status": response.status, ...Object.fromEntries(response.headers) });
  stream.end(octets, () => hangUp(stream));
}
