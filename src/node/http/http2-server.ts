import {
  type IncomingHttpHeaders,
  performServerHandshake,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from "node:http2";
import type { Duplex } from "node:stream";
import { createContextValues } from "@connectrpc/connect";
import { headersOf } from "../../host/raw-headers.ts";
import { clientCertificateKey } from "../../transport/client-certificate.ts";
import { logHttpFault } from "./http-exchange.ts";
import {
  hangUpOf,
  sendResponse,
  sendUniversalResponse,
  targetOf,
  toUniversalRequest,
} from "./http2-exchange.ts";
import type { Peer, Routes } from "./routes.ts";

const limits = {
  settings: { maxConcurrentStreams: 1000, maxHeaderListSize: 32 * 1024, enablePush: false },
  maxHeaderListPairs: 64,
  maxSessionInvalidFrames: 100,
  maxSessionRejectedStreams: 100,
  /** Megabytes that one connection may hold. */
  maxSessionMemory: 16,
};

/** As Istio's own servers do it: a ping after this silence, in milliseconds, and so long for its answer. */
const pingInterval = 30_000;
const pingTimeout = 10_000;

/** Serves a connection over HTTP/2 until it ends. */
export function serveHttp2(routes: Routes, socket: Duplex, peer: Peer): ServerHttp2Session {
  const session = performServerHandshake(socket, limits);
  // What goes wrong with a connection is the peer's affair: it ends, and its calls with it.
  session.on("error", () => session.destroy());
  session.on("stream", (stream, headers, _flags, rawHeaders) => {
    stream.on("error", () => stream.destroy());
    answer(routes, { stream, headers, rawHeaders }, peer).catch((error: unknown) => {
      stream.destroy();
      logHttpFault(routes, error);
    });
  });
  const pings = setInterval(() => ping(session), pingInterval).unref();
  session.once("close", () => clearInterval(pings));
  return session;
}

/** A peer that is gone without a word would keep its connection for ever. */
function ping(session: ServerHttp2Session): void {
  // It throws for a connection that is lost and has not said so yet.
  if (session.destroyed) return;
  const patience = setTimeout(() => session.destroy(), pingTimeout).unref();
  session.ping(() => clearTimeout(patience));
}

interface Exchange {
  readonly stream: ServerHttp2Stream;
  readonly headers: IncomingHttpHeaders;
  readonly rawHeaders: readonly string[];
}

async function answer(routes: Routes, exchange: Exchange, peer: Peer): Promise<void> {
  const { stream, rawHeaders } = exchange;
  const target = targetOf(exchange.headers);
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
