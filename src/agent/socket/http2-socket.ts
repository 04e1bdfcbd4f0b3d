import { once } from "node:events";
import {
  createServer,
  type Http2Server,
  type ServerHttp2Session,
  type ServerOptions,
} from "node:http2";
import type { OperationLog } from "../../foundation/event-log.ts";
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
  readonly log: OperationLog;
}

/** Serves HTTP/2 on a Unix socket. Only the permissions of the socket and of its folder restrict its clients. */
export async function serveHttp2(
  { path, mode, server: options, log }: Http2SocketOptions,
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
  const granted = await listenOnSocket(server, path, mode);
  if (granted !== mode) {
    const detail = "every user may enter its folder, so only its owner and its group may open it";
    log.operation({ event: "socket-narrowed", level: "warning", path, detail });
  }
  return {
    path,
    async close() {
      server.close();
      for (const session of sessions) session.destroy();
      if (server.listening) await once(server, "close");
    },
  };
}
