import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createContextValues } from "@connectrpc/connect";
import { headersOf } from "../../host/raw-headers.ts";
import { clientCertificateKey } from "../../transport/client-certificate.ts";
import { isNativeGrpc } from "../../transport/http/fetch-handler.ts";
import {
  anyOrigin,
  callerGone,
  drained,
  isUnknownToFetch,
  logHttpFault,
  skipRest,
} from "./http-exchange.ts";
import type { Peer, Routes, StreamedRequest, StreamedResponse } from "./routes.ts";

/** In milliseconds: the head of a request, all of it, and the silence after it. */
const patience = { headersTimeout: 10_000, requestTimeout: 30_000, keepAliveTimeout: 60_000 };

/**
 * A server of HTTP/1.1 for connections that somebody else accepts: probes, scrapers, and Connect and
 * gRPC-Web where a client has nothing newer.
 */
export function createHttp1Server(
  routes: Routes,
  peerOf: (request: IncomingMessage) => Peer,
): Server {
  const server = createServer({ ...patience, maxHeaderSize: 32 * 1024 }, (request, response) => {
    answer(routes, request, response, peerOf(request)).catch((error: unknown) => {
      response.destroy();
      logHttpFault(routes, error);
    });
  });
  // It never listens, and this is what makes it look after slow requests all the same.
  server.emit("listening");
  return server;
}

async function answer(
  routes: Routes,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  peer: Peer,
): Promise<void> {
  const { url = "", method = "", rawHeaders } = incoming;
  if (!url.startsWith("/") || isUnknownToFetch(method)) {
    outgoing.writeHead(400).end();
    return;
  }
  const signal = hangUpOf(outgoing);
  const header = headersOf(rawHeaders);
  const [path = ""] = url.split("?", 1);
  const rpc = isNativeGrpc(header) ? undefined : routes.rpcs.get(path);
  if (rpc) {
    const { clientCertificate } = peer;
    const contextValues = createContextValues().set(clientCertificateKey, clientCertificate);
    const call = { method, url: `${anyOrigin}${url}`, header, signal, contextValues };
    const answer = await rpc({ ...call, ...streamed(incoming) });
    if (answer.octets) await readOut(incoming, outgoing);
    return sendStreamed(outgoing, answer);
  }
  // Nothing but RPCs has a use for a body.
  const request = new Request(`${anyOrigin}${url}`, { method, headers: header, signal });
  const response = await routes.fetch(request, peer);
  await readOut(incoming, outgoing);
  outgoing.writeHead(response.status, [...response.headers].flat());
  outgoing.end(Buffer.from(await response.arrayBuffer()));
}

/** A connection on which a request is still coming once it is answered, is good for nothing more. */
async function readOut(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  await skipRest(incoming);
  if (!incoming.readableEnded) outgoing.shouldKeepAlive = false;
}

/** The part of a request that is still to come. */
function streamed(incoming: IncomingMessage): Pick<StreamedRequest, "httpVersion" | "body"> {
  // Who stops reading early has an answer to send.
  const body = incoming.iterator({ destroyOnReturn: false });
  return { httpVersion: incoming.httpVersion, body };
}

/** Aborted when the connection closes before the answer. */
function hangUpOf(outgoing: ServerResponse): AbortSignal {
  const abort = new AbortController();
  outgoing.once("close", () => {
    if (!outgoing.writableEnded) abort.abort(callerGone());
  });
  return abort.signal;
}

async function sendStreamed(
  outgoing: ServerResponse,
  { status, header, octets, body }: StreamedResponse,
): Promise<void> {
  outgoing.writeHead(status, [...(header ?? [])].flat());
  if (octets) {
    outgoing.end(octets);
    return;
  }
  for await (const chunk of body ?? []) {
    if (outgoing.destroyed) return;
    if (!outgoing.write(chunk)) await drained(outgoing);
  }
  outgoing.end();
}
