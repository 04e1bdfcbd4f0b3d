import type { IncomingHttpHeaders, ServerHttp2Stream } from "node:http2";
import { anyOrigin, callerGone, drained, isUnknownToFetch, skipRest } from "./http-exchange.ts";
import type { StreamedRequest, StreamedResponse } from "./routes.ts";

/** The parts of a request that say where it goes. */
export interface Target {
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  readonly url: string;
}

/** Where a request goes, or nothing for one that does not go to a path, or goes nowhere in fetch. */
export function targetOf(headers: IncomingHttpHeaders): Target | undefined {
  const { ":method": method = "", ":path": whole = "" } = headers;
  if (!whole.startsWith("/") || isUnknownToFetch(method)) return undefined;
  const [path = "/"] = whole.split("?", 1);
  return { method, path, url: `${anyOrigin}${whole}` };
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

/** What is left of a request even now, nobody will read. */
function hangUp(stream: ServerHttp2Stream): void {
  if (!stream.readableEnded) setImmediate(() => stream.close());
}

/** Sends the answer of a fetch handler, whole. */
export async function sendResponse(stream: ServerHttp2Stream, response: Response): Promise<void> {
  const octets = Buffer.from(await response.arrayBuffer());
  await skipRest(stream);
  if (stream.destroyed) return;
  stream.respond({ ":status": response.status, ...Object.fromEntries(response.headers) });
  stream.end(octets, () => hangUp(stream));
}
