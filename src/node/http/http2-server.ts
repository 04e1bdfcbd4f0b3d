import {
  constants,
  type IncomingHttpHeaders,
  performServerHandshake,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from "node:http2";
import { createContextValues } from "@connectrpc/connect";
import { headersOf } from "../../host/raw-headers.ts";
import { clientCertificateKey } from "../../transport/client-certificate.ts";
import type { Connection } from "./connections.ts";
import type { Exchange } from "./exchanges.ts";
import type { Guard } from "./guard.ts";
import { logHttpFault } from "./http-exchange.ts";
import {
  hangUpOf,
  sendResponse,
  sendUniversalResponse,
  targetOf,
  toUniversalRequest,
} from "./http2-exchange.ts";
import type { Peer, Routes } from "./routes.ts";

/**
 * Node's own limits. Settings, pings and empty frames beyond them end a connection; so do streams that
 * its peer resets at once, in a burst or so many each second (CVE-2023-44487).
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

/** As Istio's own servers do it: a ping after this silence, in milliseconds, and so long for its answer. */
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
  // What goes wrong with a connection is the peer's affair: it ends, and its calls with it.
  session.on("error", () => session.destroy());
  session.on("stream", (stream, headers, _flags, rawHeaders) => {
    stream.on("error", () => stream.destroy());
    const exchange = exchangeOf(stream);
    if (!track(stream, exchange, connection, guard)) return;
    guard.exchanges.answer(connection.address, exchange, "prefer" in headers, () =>
      answer(routes, { stream, headers, rawHeaders }, peer).catch((error: unknown) => {
        stream.destroy();
        logHttpFault(routes, error);
      }),
    );
  });
  const pings = setInterval(() => ping(session), pingInterval).unref();
  session.once("close", () => clearInterval(pings));
  return session;
}

const exchangeOf = (stream: ServerHttp2Stream): Exchange => ({
  isReceiving: () => !stream.endAfterHeaders && stream.state.remoteClose === 0,
  unsentOctets: () => stream.bufferSize,
  abort: () => stream.close(constants.NGHTTP2_CANCEL),
  isGone: () => stream.closed || stream.destroyed,
});

/** Counts a stream until it closes. One that finds no room is refused, so that its caller tries again. */
function track(
  stream: ServerHttp2Stream,
  exchange: Exchange,
  connection: Connection,
  { connections, exchanges }: Guard,
): boolean {
  connections.begin(connection);
  const over = exchanges.begin(exchange);
  stream.once("close", () => {
    connections.end(connection);
    if (!stream.headersSent) connections.reset(connection);
    over?.();
  });
  if (!over) stream.close(constants.NGHTTP2_REFUSED_STREAM);
  return over !== undefined;
}

/** A peer that is gone without a word would keep its connection for ever. */
function ping(session: ServerHttp2Session): void {
  // It throws for a connection that is lost and has not said so yet.
  if (session.destroyed) return;
  const patience = setTimeout(() => session.destroy(), pingTimeout).unref();
  session.ping(() => clearTimeout(patience));
}

interface Arrival {
  readonly stream: ServerHttp2Stream;
  readonly headers: IncomingHttpHeaders;
  readonly rawHeaders: readonly string[];
}

async function answer(routes: Routes, arrival: Arrival, peer: Peer): Promise<void> {
  const { stream, rawHeaders } = arrival;
  const target = targetOf(arrival.headers);
  if (!target) return stream.respond({ ":status": 400 }, { endStream: true });
  const rpc = routes.rpcs.get(target.path);
  if (rpc) {
    const { clientCertificate } = peer;
    const contextValues = createContextValues().set(clientCertificateKey, clientCertificate);
    const request = toUniversalRequest(stream, target, headersOf(rawHeaders));
    return sendUniversalResponse(stream, await rpc({ ...request, contextValues }));
  }
  // Nothing but RPCs has a use for a body.
  const { method, url } = target;
  const headers = headersOf(rawHeaders);
  const request = new Request(url, { method, headers, signal: hangUpOf(stream) });
  return sendResponse(stream, await routes.fetch(request, peer));
}
