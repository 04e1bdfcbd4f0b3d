import type { IncomingHttpHeaders, ServerHttp2Stream } from "node:http2";
import type { AnswerFields } from "../../foundation/http/header-fields.ts";
import {
  anyOrigin,
  callerGone,
  drained,
  isUnknownToFetch,
  sendBody,
  skipRest,
} from "./http-exchange.ts";
import { partsOf, type StreamedResponse } from "./routes.ts";

/** The method and the URL of a request. */
export interface Target {
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  readonly url: string;
}

/** The target of a request. `undefined` if it names no path, or a method that `Request` refuses. */
export function targetOf(headers: IncomingHttpHeaders): Target | undefined {
  const { ":method": method = "", ":path": whole = "" } = headers;
  if (!whole.startsWith("/") || isUnknownToFetch(method)) return undefined;
  const [path = "/"] = whole.split("?", 1);
  return { method, path, url: `${anyOrigin}${whole}` };
}

/** A signal that aborts when the stream closes before its answer. */
export function hangUpOf(stream: ServerHttp2Stream): AbortSignal {
  const abort = new AbortController();
  stream.once("close", () => {
    // After a whole answer there is nothing to stop. A reset ends the answer as well.
    if (stream.aborted || !stream.writableEnded) {
      abort.abort(callerGone());
    }
  });
  return abort.signal;
}

/** Sends an answer with its trailers. Without a body the trailers are all of it (gRPC's Trailers-Only). */
export async function sendRpcResponse(
  stream: ServerHttp2Stream,
  response: StreamedResponse,
  restTimeout: number,
): Promise<void> {
  const { octets, body } = partsOf(response);
  const headers = { ":status": response.status, ...recordOf(response.header) };
  const trailers = response.trailer && recordOf(response.trailer);
  const begin = (): void => {
    if (!stream.headersSent) stream.respond(headers, { waitForTrailers: trailers !== undefined });
  };
  const send = (chunk: Uint8Array): boolean => {
    begin();
    return stream.write(chunk);
  };
  if (octets && !stream.readableEnded) await readOut(stream, restTimeout);
  if (octets?.length && !stream.destroyed) begin();
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
  // The message and the end of the stream leave in one frame.
  stream.end(octets, () => trailers || hangUp(stream));
}

const recordOf = (fields: Headers | AnswerFields | undefined): AnswerFields =>
  fields instanceof Headers ? Object.fromEntries(fields) : (fields ?? {});

/**
 * Reads the rest of a request, and no further once there is too much of it. Otherwise a caller that goes on
 * sending would get more of it through, the longer the answer takes.
 */
async function readOut(stream: ServerHttp2Stream, restTimeout: number): Promise<void> {
  await skipRest(stream, restTimeout);
  stream.pause();
}

/** Closes the stream, because nothing reads the rest of its request. */
function hangUp(stream: ServerHttp2Stream): void {
  if (stream.readableEnded) return;
  setImmediate(() => {
    stream.close();
    // A stream closes only when what it holds has been read.
    stream.resume();
  });
}

/** Sends the whole answer of a fetch handler. */
export async function sendResponse(
  stream: ServerHttp2Stream,
  response: Response,
  restTimeout: number,
): Promise<void> {
  await readOut(stream, restTimeout);
  if (stream.destroyed) return;
  stream.respond({ ":status": response.status, ...Object.fromEntries(response.headers) });
  await sendBody(stream, response, () => hangUp(stream));
}
