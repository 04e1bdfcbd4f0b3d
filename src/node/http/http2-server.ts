import {
  constants,
  type IncomingHttpHeaders,
  performServerHandshake,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from "node:http2";
import { createContextValues } from "@connectrpc/connect";
import { fieldsOf, headersOf } from "../../program/http/raw-headers.ts";
import { type Peer, peerKey } from "../../transport/peer.ts";
import type { Connection } from "../limits/connections.ts";
import type { Exchange, Place } from "../limits/exchanges.ts";
import { type Guard, track } from "../limits/guard.ts";
import { restTimeoutOf } from "../limits/limits.ts";
import { logHttpFault } from "./http-exchange.ts";
import {
  hangUpOf,
  sendResponse,
  sendRpcResponse,
  type Target,
  targetOf,
} from "./http2-exchange.ts";
import { arrivalOf } from "./request-body.ts";
import type { Routes } from "./routes.ts";

/**
 * Limits that Node itself applies. Too many settings, pings or invalid frames end a connection. So do too
 * many streams that the peer resets at once, in a burst or in each second (CVE-2023-44487).
 */
const sessionLimits = {
  maxHeaderListPairs: 64,
  maxOutstandingPings: 4,
  maxSettings: 16,
  maxSessionInvalidFrames: 20,
  maxSessionRejectedStreams: 100,
  streamResetBurst: 200,
  streamResetRate: 20,
  /** Megabytes that one connection may hold. */
  maxSessionMemory: 4,
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
  const maxConcurrentStreams = guard.limits.streams_per_connection;
  const session = performServerHandshake(connection.socket, {
    ...sessionLimits,
    settings: { ...settings, maxConcurrentStreams },
  });
  // The peer causes an error of its connection, so it ends the connection and is not logged.
  session.on("error", () => session.destroy());
  session.on("stream", (stream, headers, _flags, rawHeaders) => {
    stream.on("error", () => stream.destroy());
    // A reset with NO_ERROR closes a stream only once what it holds has been read.
    stream.once("aborted", () => stream.resume());
    let isRefused = false;
    const exchange = exchangeOf(connection.address, stream, () => {
      isRefused = true;
    });
    const place = track(guard, connection, exchange, stream);
    if (!place) return;
    stream.once("close", () => {
      if (!stream.headersSent && !isRefused) guard.connections.countVain(connection);
    });
    const restTimeout = restTimeoutOf(guard.limits);
    const arrival = { stream, headers, rawHeaders, peer, place, restTimeout };
    answer(routes, arrival).catch((error: unknown) => {
      stream.destroy();
      logHttpFault(routes, error);
    });
  });
  session.on("ping", () => guard.connections.countVain(connection));
  session.on("remoteSettings", () => guard.connections.countVain(connection));
  const pings = setInterval(() => ping(session), pingInterval).unref();
  session.once("close", () => {
    clearInterval(pings);
    letGo(session);
  });
  return session;
}

/**
 * Lets go of a closed session.
 *
 * Node keeps a session whose peer has not acknowledged the settings for as long as something leads from it to
 * Node's own handle of it. The stack of the error that ended it does, and the listeners lead there by the socket.
 */
function letGo(session: ServerHttp2Session): void {
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

/** Without pings, the connection of a peer that has vanished would stay open. */
function ping(session: ServerHttp2Session): void {
  // `ping` throws for a connection that is lost and has not emitted `close` yet.
  if (session.destroyed) return;
  const timeout = setTimeout(() => session.destroy(), pingTimeout).unref();
  session.ping(() => clearTimeout(timeout));
}

interface Arrival {
  readonly stream: ServerHttp2Stream;
  readonly headers: IncomingHttpHeaders;
  readonly rawHeaders: readonly string[];
  readonly peer: Peer;
  readonly place: Place;
  readonly restTimeout: number;
}

async function answer(routes: Routes, arrival: Arrival): Promise<void> {
  const { stream, headers, place, restTimeout } = arrival;
  const target = targetOf(headers);
  if (!target) return stream.respond({ ":status": 400 }, { endStream: true });
  const rpc = routes.rpcs.get(target.path);
  if (rpc) {
    const body = await arrivalOf(stream, headers, place.hold);
    const response = await place.inTurn(() => rpc({ ...callOf(arrival, target), body }));
    return response && sendRpcResponse(stream, response, restTimeout);
  }
  const streaming = routes.streamingRpcs?.get(target.path);
  if (streaming) {
    const call = () => streaming({ ...callOf(arrival, target), body: stream });
    const response = await place.inTurn(call);
    return response && sendRpcResponse(stream, response, restTimeout);
  }
  // Only RPCs read a body.
  const response = await place.inTurn((passTurn) => fetchOf(routes, arrival, target, passTurn));
  return response && sendResponse(stream, response, restTimeout);
}

function callOf({ stream, rawHeaders, peer }: Arrival, { method, url }: Target) {
  const contextValues = createContextValues().set(peerKey, peer);
  const [header, signal] = [fieldsOf(rawHeaders), hangUpOf(stream)];
  const headers = () => headersOf(rawHeaders);
  return { httpVersion: "2.0", method, url, header, headers, signal, contextValues };
}

function fetchOf(
  routes: Routes,
  { stream, rawHeaders, peer }: Arrival,
  { method, url }: Target,
  passTurn: () => void,
): Promise<Response> {
  const headers = headersOf(rawHeaders);
  const request = new Request(url, { method, headers, signal: hangUpOf(stream) });
  return routes.fetch(request, { ...peer, passTurn });
}
