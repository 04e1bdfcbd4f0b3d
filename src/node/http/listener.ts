import { once } from "node:events";
import type { Server as HttpServer } from "node:http";
import type { ServerHttp2Session } from "node:http2";
import { type AddressInfo, createServer, type Server } from "node:net";
import type { Duplex } from "node:stream";
import { createServer as createTlsServer, type TLSSocket } from "node:tls";
import { type ClientVerification, clientOf } from "../tls/peer-certificate.ts";
import type { ServerCredentials } from "../tls/tls-credentials.ts";
import { tlsOptions } from "../tls/tls-credentials.ts";
import { createHttp1Server } from "./http1-server.ts";
import { serveHttp2 } from "./http2-server.ts";
import type { ListenAddress } from "./listen-address.ts";
import type { Peer, Routes } from "./routes.ts";

/** A site on a port. */
export interface Listener {
  readonly address: AddressInfo;
  /**
   * Accepts nothing more, lets what is under way end, and cuts what has not ended in this time.
   */
  readonly close: (graceMilliseconds: number) => Promise<void>;
}

/** A listener with TLS, whose credentials may change while it runs. */
export interface TlsListener extends Listener {
  /**
   * For every handshake from now on. Connections stay, but for those that a client certificate has
   * opened when the roots change: they take no more calls, and have to be opened anew.
   */
  readonly replace: (credentials: ServerCredentials) => void;
}

/** Connections, as they are accepted and as long as they last. */
interface Connections {
  readonly take: (socket: Duplex, protocol: "http/1.1" | "h2", peer: Peer) => void;
  /** Nobody is believed any longer for the certificate that opened a connection. */
  readonly forgetCertificates: () => void;
  readonly close: (graceMilliseconds: number) => Promise<void>;
}

const handshakeTimeout = 10_000;
const nobody: Peer = { clientCertificate: undefined };

/** gRPC, gRPC-Web, Connect and plain HTTP over TLS on one port. */
export async function listenWithTls(
  routes: Routes,
  listen: ListenAddress,
  credentials: ServerCredentials,
  verification: ClientVerification,
): Promise<TlsListener> {
  const connections = createConnections(routes);
  const server = createTlsServer({ ...tlsOptions(credentials), handshakeTimeout });
  server.on("secureConnection", (socket: TLSSocket) => {
    const peer = clientOf(socket, verification);
    if (peer) connections.take(socket, socket.alpnProtocol === "h2" ? "h2" : "http/1.1", peer);
    else socket.destroy();
  });
  let { clientRoots } = credentials;
  return {
    ...(await listening(server, listen, connections)),
    replace: (next) => {
      server.setSecureContext(tlsOptions(next));
      if (next.clientRoots !== clientRoots) connections.forgetCertificates();
      clientRoots = next.clientRoots;
    },
  };
}

/** The same without TLS, for the loopback interface and for networks that encrypt by themselves. */
export async function listenInPlaintext(routes: Routes, listen: ListenAddress): Promise<Listener> {
  const connections = createConnections(routes);
  const server = createServer((socket) => {
    socket.setTimeout(handshakeTimeout, () => socket.destroy());
    socket.on("error", () => socket.destroy());
    socket.once("data", (first: Buffer) => {
      socket.setTimeout(0);
      socket.pause();
      socket.unshift(first);
      connections.take(
        socket,
        first.toString("latin1", 0, 3) === "PRI" ? "h2" : "http/1.1",
        nobody,
      );
    });
  });
  return listening(server, listen, connections);
}

async function listening(
  server: Server,
  listen: ListenAddress,
  connections: Connections,
): Promise<Listener> {
  server.listen(listen);
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("not a TCP server");
  return {
    address,
    close: async (graceMilliseconds) => {
      server.close();
      await connections.close(graceMilliseconds);
    },
  };
}

function createConnections(routes: Routes): Connections {
  const sockets = new Map<Duplex, Peer>();
  const sessions = new Map<ServerHttp2Session, Peer>();
  const http1: HttpServer = createHttp1Server(
    routes,
    ({ socket }) => sockets.get(socket) ?? nobody,
  );

  function take(socket: Duplex, protocol: "http/1.1" | "h2", peer: Peer): void {
    sockets.set(socket, peer);
    socket.once("close", () => sockets.delete(socket));
    if (protocol === "http/1.1") {
      http1.emit("connection", socket);
      socket.resume();
      return;
    }
    const session = serveHttp2(routes, socket, peer);
    sessions.set(session, peer);
    session.once("close", () => sessions.delete(session));
  }

  function forgetCertificates(): void {
    for (const socket of sockets.keys()) sockets.set(socket, nobody);
    for (const [session, { clientCertificate }] of sessions) if (clientCertificate) session.close();
  }

  async function close(graceMilliseconds: number): Promise<void> {
    const ended = [...sockets.keys()].map((socket) => once(socket, "close"));
    for (const session of sessions.keys()) session.close();
    http1.keepAliveTimeout = 1;
    http1.close();
    const cut = setTimeout(() => {
      for (const socket of sockets.keys()) socket.destroy();
    }, graceMilliseconds);
    await Promise.all(ended);
    clearTimeout(cut);
  }

  return { take, forgetCertificates, close };
}
