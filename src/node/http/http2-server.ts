import {
  constants,
  type IncomingHttpHeaders,
  performServerHandshake,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from "node:http2";
import type { AnswerFields } from "../../foundation/headers.ts";
import { RawHeaders } from "../../program/http/http-exchange.ts";
import type { Peer } from "../../transport/rpc/rpc.ts";
import type { Connection } from "../limits/connections.ts";
import type { Exchange, Permit } from "../limits/exchanges.ts";
import { type Guard, track } from "../limits/guard.ts";
import { bodyTimeoutOf } from "../limits/limits.ts";
import { HttpExchange } from "./http-exchange.ts";
import { partsOf, type Routes, type StreamedResponse } from "./routes.ts";

/**
 * Limits that Node itself applies. Too many settings, pings or invalid frames end a connection, and so do too many
 * streams that the peer resets, in a burst or per second (CVE-2023-44487).
 */
const sessionLimits = {
  maxHeaderListPairs: 64,
  maxOutstandingPings: 4,
  maxSettings: 16,
  /** High, because a throttled peer sends as much as before until it has read its new limit. */
  maxSessionInvalidFrames: 200,
  maxSessionRejectedStreams: 100,
  streamResetBurst: 200,
  streamResetRate: 20,
  /** Megabytes for each connection: enough for a part of a document in each of a hundred streams. */
  maxSessionMemory: 2,
};

const settings = { maxHeaderListSize: 32 * 1024, enablePush: false };

/** In milliseconds, as in Istio's servers: the silence before a ping, and the time for its answer. */
const pingInterval = 30_000;
const pingTimeout = 10_000;

/** Serves a connection over HTTP/2 until it ends. */
export function serveHttp2(
  routes: Routes,
  connection: Connection,
  peer: Peer,
  guard: Guard,
): ServerHttp2Session {
  const maxConcurrentStreams = guard.connections.throttled.requestsAtOnce(connection);
  const session = performServerHandshake(connection.socket, {
    ...sessionLimits,
    settings: { ...settings, maxConcurrentStreams },
  });
  // The peer has caused the error, so it only ends the connection and is not logged.
  session.on("error", () => session.destroy());
  session.on("stream", (stream, headers, _flags, rawHeaders) => {
    stream.on("error", () => stream.destroy());
    // After a reset with NO_ERROR, a stream closes only once its buffer has been read.
    stream.once("aborted", () => stream.resume());
    let isRefused = false;
    const permit = track(guard, connection, {
      headers,
      outgoing: stream,
      exchangeBy: (address) =>
        exchangeOf(address, stream, () => {
          isRefused = true;
          guard.connections.throttled.throttle(connection);
        }),
    });
    if (!permit) return;
    stream.once("close", () => {
      if (!stream.headersSent && !isRefused) guard.connections.countControlFrame(connection);
    });
    // The headers of a request may be as large as a body and stay in memory as strings, so they are counted, too.
    permit.reserve(rawHeaders.reduce((octets, { length }) => octets + length, 0));
    const restTimeout = bodyTimeoutOf(guard.limits);
    const arrived = { stream, headers, rawHeaders, peer, permit, restTimeout };
    answer(routes, arrived).catch((error: unknown) => {
      stream.destroy();
      HttpExchange.logFault(routes, error);
    });
  });
  session.on("ping", () => guard.connections.countControlFrame(connection));
  session.on("remoteSettings", () => guard.connections.countControlFrame(connection));
  const pings = setInterval(() => ping(session, connection), pingInterval).unref();
  session.once("close", () => {
    clearInterval(pings);
    release(session);
  });
  return session;
}

/**
 * Releases what would keep a closed session in memory.
 *
 * If the peer has not acknowledged the settings, Node keeps the session while anything in it leads to Node's own handle.
 * The stack of the error that ended the session does, and so do the listeners, by the socket.
 */
function release(session: ServerHttp2Session): void {
  session.removeAllListeners();
  session.on("error", () => {});
}

const exchangeOf = (address: string, stream: ServerHttp2Stream, refused: () => void): Exchange => ({
  address,
  isReceiving: () => !stream.endAfterHeaders && stream.state.remoteClose === 0,
  unsentOctets: () => stream.bufferSize,
  abort: () => stream.close(constants.NGHTTP2_CANCEL),
  refuse: (isUntouched) => {
    refused();
    const { NGHTTP2_REFUSED_STREAM, NGHTTP2_ENHANCE_YOUR_CALM } = constants;
    stream.close(isUntouched ? NGHTTP2_REFUSED_STREAM : NGHTTP2_ENHANCE_YOUR_CALM);
  },
  isGone: () => stream.closed || stream.destroyed,
});

/**
 * Pings a peer, and aborts its connection if no response comes in time. A session that has ended is aborted at once,
 * because Node would wait for ever until a vanished peer reads the rest.
 */
export function ping(session: ServerHttp2Session, { abort }: Pick<Connection, "abort">): void {
  // `ping` throws for a session that has ended and has not emitted `close` yet.
  if (session.destroyed) {
    abort();
    return;
  }
  const timeout = setTimeout(abort, pingTimeout).unref();
  session.ping(() => clearTimeout(timeout));
}

interface Arrived {
  readonly stream: ServerHttp2Stream;
  readonly headers: IncomingHttpHeaders;
  readonly rawHeaders: readonly string[];
  readonly peer: Peer;
  readonly permit: Permit;
  readonly restTimeout: number;
}

async function answer(routes: Routes, arrived: Arrived): Promise<void> {
  const { stream, headers, rawHeaders, peer, permit } = arrived;
  const { ":method": method = "", ":path": target = "" } = headers;
  if (!HttpExchange.isTarget(target, method))
    return stream.respond({ ":status": 400 }, { endStream: true });
  const call = () => ({
    httpVersion: "2.0",
    method,
    url: `${HttpExchange.anyOrigin}${target}`,
    signal: hangUpOf(stream),
    header: RawHeaders.toFields(rawHeaders),
    headers: () => RawHeaders.toHeaders(rawHeaders),
    peer,
  });
  const path = HttpExchange.targetPath(target);
  const arrival = { path, incoming: stream, headers, call, peer, permit };
  const response = await HttpExchange.answer(routes, arrival);
  if (response instanceof Response) await sendResponse(arrived, response);
  else if (response) await sendRpcResponse(arrived, response);
}

/** A signal that aborts if the stream closes before its response is complete. */
function hangUpOf(stream: ServerHttp2Stream): AbortSignal {
  const abort = new AbortController();
  stream.once("close", () => {
    // After a complete response there is nothing to abort. A reset ends the response as well.
    if (stream.aborted || !stream.writableEnded) abort.abort(HttpExchange.callerGone());
  });
  return abort.signal;
}

/** Sends an answer with its trailers. Without a body the trailers are all of it (gRPC's Trailers-Only). */
async function sendRpcResponse(
  { stream, permit, restTimeout }: Arrived,
  response: StreamedResponse,
): Promise<void> {
  const { octets, body } = partsOf(response);
  const headers = { ":status": response.status, ...recordOf(response.header) };
  const trailers = response.trailer && recordOf(response.trailer);
  const begin = (): void => {
    if (!stream.headersSent) stream.respond(headers, { waitForTrailers: trailers !== undefined });
  };
  if (octets && !stream.readableEnded) await readOut(stream, restTimeout);
  permit.reserve(octets?.length ?? 0);
  if (octets?.length && !HttpExchange.isOver(stream)) begin();
  for await (const chunk of body ?? []) {
    if (HttpExchange.isOver(stream)) return;
    begin();
    await HttpExchange.writeChunk(stream, chunk, permit);
  }
  if (HttpExchange.isOver(stream)) return;
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

/** Discards the rest of a request up to a bound, and reads no more while the response is sent. */
async function readOut(stream: ServerHttp2Stream, restTimeout: number): Promise<void> {
  await HttpExchange.skipRest(stream, restTimeout);
  stream.pause();
}

/** Closes the stream, because nothing reads the rest of its request. */
function hangUp(stream: ServerHttp2Stream): void {
  if (stream.readableEnded) return;
  setImmediate(() => {
    stream.close();
    // A stream closes only once its buffer has been read.
    stream.resume();
  });
}

/** Sends the response of a fetch handler. */
async function sendResponse(
  { stream, permit, restTimeout }: Arrived,
  response: Response,
): Promise<void> {
  await readOut(stream, restTimeout);
  if (HttpExchange.isOver(stream)) return;
  stream.respond({ ":status": response.status, ...Object.fromEntries(response.headers) });
  await HttpExchange.sendBody(stream, response, permit, () => hangUp(stream));
}
