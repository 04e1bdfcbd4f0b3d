import { once } from "node:events";
import {
  createServer,
  type Http2Server,
  type ServerHttp2Session,
  type ServerOptions,
} from "node:http2";
import { listenOnSocket } from "./unix-socket.ts";

/** A running server of HTTP/2 without TLS. */
export interface Http2Socket {
  readonly path: string;
  /** Cuts every stream. Clients reconnect to the next agent. */
  close(): Promise<void>;
}

/** The path and the permissions of a server. */
export interface Http2SocketOptions {
  readonly path: string;
  readonly mode: number;
  readonly server: ServerOptions;
}

/** Serves HTTP/2 on a Unix socket. Only the permissions of the socket restrict its clients. */
export async function serveHttp2(
  { path, mode, server: options }: Http2SocketOptions,
  attach: (server: Http2Server) => void,
): Promise<Http2Socket> {
  const server = createServer(options);
  attach(server);
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
