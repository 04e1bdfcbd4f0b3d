import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { anyOrigin, headersOf } from "./http2-exchange.ts";
import type { Peer, Site } from "./site.ts";

/** In milliseconds: the head of a request, all of it, and the silence after it. */
const patience = { headersTimeout: 10_000, requestTimeout: 30_000, keepAliveTimeout: 60_000 };

/**
 * A server of HTTP/1.1 for connections that somebody else accepts: probes, scrapers, and Connect and
 * gRPC-Web where a client has nothing newer.
 */
export function createHttp1Server(site: Site, peerOf: (request: IncomingMessage) => Peer): Server {
  const server = createServer({ ...patience, maxHeaderSize: 32 * 1024 }, (request, response) => {
    answer(site, request, response, peerOf(request)).catch((error: unknown) => {
      response.destroy();
      logFault(site, error);
    });
  });
  // It never listens, and this is what makes it look after slow requests all the same.
  server.emit("listening");
  return server;
}

async function answer(
  site: Site,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  peer: Peer,
): Promise<void> {
  const abort = new AbortController();
  outgoing.once("close", () => {
    if (!outgoing.writableEnded) abort.abort();
  });
  const request = toRequest(incoming, abort.signal);
  if (!request) {
    outgoing.writeHead(400).end();
    return;
  }
  const response = await site.fetch(request, peer);
  outgoing.writeHead(response.status, [...response.headers].flat());
  outgoing.end(Buffer.from(await response.arrayBuffer()));
}

/** Nothing for what fetch does not know: a method such as TRACE, a target that is no path. */
function toRequest(incoming: IncomingMessage, signal: AbortSignal): Request | undefined {
  const { url = "", method = "", rawHeaders } = incoming;
  if (!url.startsWith("/") || /^(?:CONNECT|TRACE|TRACK)$/i.test(method)) return undefined;
  const hasBody = method !== "GET" && method !== "HEAD";
  return new Request(`${anyOrigin}${url}`, {
    method,
    headers: headersOf(rawHeaders),
    signal,
    ...(hasBody && { body: Readable.toWeb(incoming) as ReadableStream, duplex: "half" }),
  });
}

export function logFault({ log }: Site, error: unknown): void {
  const detail = error instanceof Error ? error.message : "something that is not an error";
  log.operation({ event: "http-fault", level: "error", detail });
}
