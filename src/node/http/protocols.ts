import type { Server as HttpServer } from "node:http";
import { constants, type ServerHttp2Session } from "node:http2";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { addressOf } from "../../foundation/peer-address.ts";
import type { Peer } from "../../transport/peer.ts";
import type { Connection } from "../limits/connections.ts";
import type { Guard } from "../limits/guard.ts";
import { createHttp1Server, type Http1Connection } from "./http1-server.ts";
import { serveHttp2 } from "./http2-server.ts";
import type { Routes } from "./routes.ts";

/** Serves both versions of HTTP on the connections of one port. */
export interface Protocols {
  readonly serve: (socket: Socket, protocol: "http/1.1" | "h2", peer: Peer) => void;
  /** Stops trusting the client certificates of open connections. */
  readonly forgetCertificates: () => void;
  readonly close: (graceMilliseconds: number) => Promise<void>;
}

export function createProtocols(routes: Routes, guard: Guard): Protocols {
  const sockets = new Map<Duplex, Http1Connection>();
  const sessions = new Map<ServerHttp2Session, Peer>();
  const http1: HttpServer = createHttp1Server(routes, guard, (socket) => sockets.get(socket));

  function serve(socket: Socket, protocol: "http/1.1" | "h2", { clientCertificate }: Peer): void {
    let session: ServerHttp2Session | undefined;
    const peer = { clientCertificate, address: socket.remoteAddress };
    const connection: Connection = {
      socket,
      address: addressOf(socket.remoteAddress),
      requests: 0,
      idleSince: guard.clock(),
      octetsRead: () => socket.bytesRead,
      close: () => (session ? session.close() : socket.end()),
      cut: () => {
        // The session would parse all that it has read, and make a stream of each request.
        session?.destroy(undefined, constants.NGHTTP2_ENHANCE_YOUR_CALM);
        socket.destroy();
      },
    };
    if (!guard.connections.admit(connection)) return;
    sockets.set(socket, { peer, connection });
    socket.once("close", () => sockets.delete(socket));
    if (protocol === "http/1.1") {
      http1.emit("connection", socket);
      socket.resume();
      return;
    }
    const opened = serveHttp2(routes, connection, peer, guard);
    session = opened;
    sessions.set(opened, peer);
    opened.once("close", () => sessions.delete(opened));
  }

  function forgetCertificates(): void {
    for (const [socket, { connection, peer }] of sockets)
      sockets.set(socket, { connection, peer: { address: peer.address } });
    for (const [session, { clientCertificate }] of sessions) if (clientCertificate) session.close();
  }

  async function close(graceMilliseconds: number): Promise<void> {
    const ended = [...sockets.keys()].map(closed);
    for (const session of sessions.keys()) session.close();
    http1.keepAliveTimeout = 1;
    http1.close();
    const cut = setTimeout(() => {
      for (const socket of sockets.keys()) socket.destroy();
    }, graceMilliseconds);
    await Promise.all(ended);
    clearTimeout(cut);
  }

  return { serve, forgetCertificates, close };
}

/** Resolves whatever ends the socket: `once` would reject where the peer resets it. */
function closed(socket: Duplex): Promise<void> {
  return new Promise((resolve) => socket.once("close", () => resolve()));
}
