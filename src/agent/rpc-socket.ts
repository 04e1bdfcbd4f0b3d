import { once } from "node:events";
import { constants, createServer, type ServerHttp2Session } from "node:http2";
import type { ConnectRouter } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { listenOnSocket } from "./unix-socket.ts";

/** A running gRPC server. */
export interface RpcSocket {
  readonly path: string;
  /** Cuts every stream: clients come back elsewhere, or to the next agent. */
  close(): Promise<void>;
}

const maximumMessageBytes = 1 << 20;
const maximumStreams = 1_000;

/** Serves gRPC in the clear on a socket of the file system, whose permissions are the only guard. */
export async function serveOnSocket(
  path: string,
  mode: number,
  routes: (router: ConnectRouter) => void,
): Promise<RpcSocket> {
  const adapter = connectNodeAdapter({
    routes,
    connect: false,
    grpcWeb: false,
    readMaxBytes: maximumMessageBytes,
    acceptCompression: [],
  });
  const server = createServer({ settings: { maxConcurrentStreams: maximumStreams } });
  server.on("request", (request, response) => {
    // gRPC's own libraries put the socket's path here, of which the adapter cannot make a URL.
    request.headers[":authority"] = "localhost";
    try {
      adapter(request, response);
    } catch {
      // A path that makes no URL either: nobody's mistake but the caller's.
      response.stream.close(constants.NGHTTP2_PROTOCOL_ERROR);
    }
  });
  const sessions = new Set<ServerHttp2Session>();
  server.on("session", (session) => {
    sessions.add(session);
    session.on("close", () => sessions.delete(session));
    // A peer that breaks the protocol loses its session, and nobody else's.
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
