import type { Http2ServerRequest, Http2ServerResponse } from "node:http2";
import { Code, ConnectError, type ConnectRouter, createConnectRouter } from "@connectrpc/connect";
import type { UniversalHandler } from "@connectrpc/connect/protocol";
import {
  universalRequestFromNodeRequest,
  universalResponseToNodeResponse,
} from "@connectrpc/connect-node";
import { messageOf } from "../../foundation/errors.ts";
import type { OperationLog } from "../../foundation/event-log.ts";
import { capTimeouts } from "../../foundation/http/timeout-header.ts";
import { type Http2Socket, serveHttp2 } from "./http2-socket.ts";

/** The path, the permissions and the services of a server. */
export interface RpcSocketOptions {
  readonly path: string;
  readonly mode: number;
  readonly routes: (router: ConnectRouter) => void;
  readonly log: OperationLog;
}

const maximumMessageBytes = 1 << 20;
const maximumStreams = 1_000;

/** Serves plaintext gRPC on a Unix socket. Only the permissions of the socket and of its folder restrict its clients. */
export async function serveOnSocket({
  path,
  mode,
  routes,
  log,
}: RpcSocketOptions): Promise<Http2Socket> {
  const protocols = { grpc: true, grpcWeb: false, connect: false };
  const router = createConnectRouter({ ...protocols, readMaxBytes: maximumMessageBytes });
  routes(router);
  const handlers = new Map(router.handlers.map((handler) => [handler.requestPath, handler]));
  const settings = { maxConcurrentStreams: maximumStreams };
  return serveHttp2({ path, mode, server: { settings }, log }, (server) => {
    server.on("request", (request, response) => {
      const handler = handlers.get(request.url);
      if (handler) void answer(handler, request, response, log);
      else response.writeHead(404).end();
    });
  });
}

async function answer(
  handler: UniversalHandler,
  request: Http2ServerRequest,
  response: Http2ServerResponse,
  log: OperationLog,
): Promise<void> {
  // gRPC libraries send the path of the socket, which does not parse in a URL.
  request.headers[":authority"] = "localhost";
  try {
    const call = universalRequestFromNodeRequest(request, response, undefined, undefined);
    const header = capTimeouts(call.header);
    await universalResponseToNodeResponse(await handler({ ...call, header }), response);
  } catch (error) {
    // A stream that the client or the end of the agent has cut is no failure.
    if (response.stream.destroyed || ConnectError.from(error).code === Code.Aborted) return;
    log.operation({ event: "rpc-failed", level: "warning", detail: messageOf(error) });
    response.stream.destroy();
  }
}
