import { once } from "node:events";
import {
  createServer,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type ServerHttp2Session,
} from "node:http2";
import { Code, ConnectError, type ConnectRouter, createConnectRouter } from "@connectrpc/connect";
import type { UniversalHandler } from "@connectrpc/connect/protocol";
import {
  universalRequestFromNodeRequest,
  universalResponseToNodeResponse,
} from "@connectrpc/connect-node";
import { messageOf } from "../../foundation/errors.ts";
import type { OperationLog } from "../../foundation/event-log.ts";
import { capTimeouts } from "../../foundation/http/timeout-header.ts";
import { listenOnSocket } from "./unix-socket.ts";

/** A running gRPC server. */
export interface RpcSocket {
  readonly path: string;
  /** Cuts every stream. Clients reconnect to the next agent. */
  close(): Promise<void>;
}

/** The path, the permissions and the services of a server. */
export interface RpcSocketOptions {
  readonly path: string;
  readonly mode: number;
  readonly routes: (router: ConnectRouter) => void;
  readonly log: OperationLog;
}

const maximumMessageBytes = 1 << 20;
const maximumStreams = 1_000;

/** Serves plaintext gRPC on a Unix socket. Only the permissions of the socket restrict its clients. */
export async function serveOnSocket({
  path,
  mode,
  routes,
  log,
}: RpcSocketOptions): Promise<RpcSocket> {
  const protocols = { grpc: true, grpcWeb: false, connect: false };
  const router = createConnectRouter({ ...protocols, readMaxBytes: maximumMessageBytes });
  routes(router);
  const handlers = new Map(router.handlers.map((handler) => [handler.requestPath, handler]));
  const server = createServer({ settings: { maxConcurrentStreams: maximumStreams } });
  server.on("request", (request, response) => {
    const handler = handlers.get(request.url);
    if (handler) void answer(handler, request, response, log);
    else response.writeHead(404).end();
  });
  const sessions = new Set<ServerHttp2Session>();
  server.on("session", (session) => {
    sessions.add(session);
    session.on("close", () => sessions.delete(session));
    // A protocol error ends the session of that peer alone.
    session.on("error", () => session.destroy());
  });
  await listenOnSocket(server, path, mode);
  return {
    path,
    async close() {
      server.close();
      for (const session of sessions) session.destroy();
      if (server.listening) await once(server, "close");
    },
  };
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
