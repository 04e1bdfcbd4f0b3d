import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { parseNoMore, RawHeaders } from "../../program/http/http-exchange.ts";
import { RequestBody } from "../../transport/rpc/request-body.ts";
import type { Peer } from "../../transport/rpc/rpc.ts";
import type { Connection } from "../limits/connections.ts";
import type { Exchange, Permit } from "../limits/exchanges.ts";
import { type Guard, track } from "../limits/guard.ts";
import { bodyTimeoutOf, longBanMilliseconds } from "../limits/limits.ts";
import { HttpExchange } from "./http-exchange.ts";
import { partsOf, type Routes, type StreamedResponse } from "./routes.ts";

/** How long a connection may be idle between two requests, in milliseconds. */
const keepAliveTimeout = 60_000;

/** The most requests under way on a connection: Node begins all that it has read, and no client of Istio sends two. */
const mostPipelined = 16;

/** The most pieces of a request: even a chunk with one octet takes a hundred octets of memory. */
const mostPieces = 1024;

/** The interval at which Node ends requests that take too long, in milliseconds. */
const connectionsCheckingInterval = 1_000;

/** A connection of HTTP/1.1, and its peer. */
export interface Http1Connection {
  readonly connection: Connection;
  readonly peer: Peer;
}

/**
 * Creates an HTTP/1.1 server for connections that a listener accepts: probes, scrapers, and Connect and
 * gRPC-Web of clients without HTTP/2.
 */
export function createHttp1Server(
  routes: Routes,
  guard: Guard,
  connectionOf: (socket: Socket) => Http1Connection | undefined,
): Server {
  const { progress_timeout } = guard.limits;
  const options = {
    headersTimeout: progress_timeout,
    requestTimeout: progress_timeout,
    connectionsCheckingInterval: Math.min(connectionsCheckingInterval, progress_timeout / 2),
    keepAliveTimeout,
    maxHeaderSize: 32 * 1024,
  };
  const server = createServer(options, (request, response) => {
    const opened = connectionOf(request.socket);
    // Node still emits requests that it had read before the socket was destroyed.
    if (!opened || request.socket.destroyed) return;
    const { connection, peer } = opened;
    const cut = (): void => {
      parseNoMore(request.socket);
      guard.connections.abort(connection, longBanMilliseconds);
    };
    if (connection.requests >= mostPipelined) return cut();
    boundPieces(request, cut);
    const permit = track(guard, connection, {
      headers: request.headers,
      outgoing: response,
      exchangeBy: (address) => exchangeOf(address, request, response),
    });
    if (!permit) return;
    const restTimeout = bodyTimeoutOf(guard.limits);
    answer(routes, { incoming: request, outgoing: response, peer, permit, restTimeout }).catch(
      (error: unknown) => {
        response.destroy();
        HttpExchange.logFault(routes, error);
      },
    );
  });
  // Node would answer a request with `Expect` itself, and no limit would count it.
  server.on("checkExpectation", (...arrived) => server.emit("request", ...arrived));
  // Node reads both timeouts from the server each time it checks the connections.
  const current = { get: () => guard.limits.progress_timeout };
  Object.defineProperties(server, { headersTimeout: current, requestTimeout: current });
  // Starts the server's timeouts, because it never listens itself.
  server.emit("listening");
  return server;
}

/** Calls `cut` once a request has too many chunks, even while nobody reads them. */
function boundPieces(request: IncomingMessage, cut: () => void): void {
  const push = request.push.bind(request);
  let pieces = 0;
  request.push = (piece, encoding) => {
    if (++pieces < mostPieces) return push(piece, encoding);
    if (pieces === mostPieces) cut();
    return false;
  };
}

/** The event of a response that is refused in favour of another caller's. */
const refused = "refused";

const exchangeOf = (
  address: string,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
): Exchange => ({
  address,
  isReceiving: () => !incoming.complete,
  unsentOctets: () => outgoing.writableLength,
  abort: () => outgoing.destroy(),
  refuse: () => {
    outgoing.emit(refused);
    if (outgoing.headersSent) outgoing.destroy();
    else outgoing.writeHead(503, { "retry-after": "1", connection: "close" }).end();
  },
  isGone: () => outgoing.writableEnded || outgoing.destroyed || outgoing.socket?.destroyed === true,
});

interface Arrived {
  readonly incoming: IncomingMessage;
  readonly outgoing: ServerResponse;
  readonly peer: Peer;
  readonly permit: Permit;
  readonly restTimeout: number;
}

async function answer(routes: Routes, arrived: Arrived): Promise<void> {
  const { incoming, outgoing, peer, permit } = arrived;
  const { url: target = "", method = "", headers, httpVersion, rawHeaders } = incoming;
  if (!HttpExchange.isTarget(target, method)) {
    outgoing.writeHead(400).end();
    return;
  }
  const call = () => {
    const header = RawHeaders.toHeaders(rawHeaders);
    const [url, signal] = [`${HttpExchange.anyOrigin}${target}`, hangUpOf(outgoing)];
    return { httpVersion, method, url, header, headers: () => header, signal, peer };
  };
  // Native gRPC needs HTTP/2.
  const known = RequestBody.isGrpc(headers["content-type"]) ? withoutRpcs(routes) : routes;
  const arrival = { path: HttpExchange.targetPath(target), incoming, headers, call, peer, permit };
  const response = await HttpExchange.answer(known, arrival);
  if (response instanceof Response) await sendResponse(arrived, response);
  else if (response) await sendRpcResponse(arrived, response);
}

const withoutRpcs = (routes: Routes): Routes => ({ ...routes, rpcs: new Map() });

/** Discards the rest of a request. If more is still coming, the connection cannot be reused. */
async function readOut({ incoming, outgoing, restTimeout }: Arrived): Promise<void> {
  await HttpExchange.skipRest(incoming, restTimeout);
  if (!incoming.readableEnded) outgoing.shouldKeepAlive = false;
}

/** The signal that aborts when the connection closes before the response is sent, or the request is refused. */
function hangUpOf(outgoing: ServerResponse): AbortSignal {
  const abort = new AbortController();
  outgoing.once("close", () => {
    if (!outgoing.writableEnded) abort.abort(HttpExchange.callerGone());
  });
  outgoing.once(refused, () => abort.abort(HttpExchange.callerGone()));
  return abort.signal;
}

async function sendResponse(arrived: Arrived, response: Response): Promise<void> {
  const { outgoing, permit } = arrived;
  await readOut(arrived);
  if (outgoing.headersSent || outgoing.destroyed) return;
  outgoing.writeHead(response.status, [...response.headers].flat());
  await HttpExchange.sendBody(outgoing, response, permit);
}

async function sendRpcResponse(arrived: Arrived, response: StreamedResponse): Promise<void> {
  const { outgoing, permit } = arrived;
  const { octets, body } = partsOf(response);
  if (octets) await readOut(arrived);
  permit.reserve(octets?.length ?? 0);
  if (outgoing.headersSent || outgoing.destroyed) return;
  outgoing.writeHead(response.status, [...new Headers(response.header)].flat());
  if (octets) {
    outgoing.end(octets);
    return;
  }
  for await (const chunk of body ?? []) {
    if (HttpExchange.isOver(outgoing)) return;
    await HttpExchange.writeChunk(outgoing, chunk, permit);
  }
  outgoing.end();
}
