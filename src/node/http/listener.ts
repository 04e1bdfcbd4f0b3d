import { once } from "node:events";
import type { Server as HttpServer } from "node:http";
import { constants, type ServerHttp2Session } from "node:http2";
import { createServer, type Server, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { CallerAddress } from "../../foundation/shares.ts";
import type { Port } from "../../program/program.ts";
import type { ListenAddress } from "../files/places.ts";
import type { Connection } from "../limits/connections.ts";
import { createGuard, type Guard } from "../limits/guard.ts";
import { type BeginHandshake, Handshakes } from "../limits/handshakes.ts";
import { longBanMilliseconds, monitoringLimits } from "../limits/limits.ts";
import type { Client } from "../tls.ts";
import { createHttp1Server, type Http1Connection } from "./http1-server.ts";
import { serveHttp2 } from "./http2-server.ts";
import { allowing } from "./requests-at-once.ts";
import type { Routes } from "./routes.ts";

/** Called when a handshake is over, with whether its peer behaved acceptably. */
export type Done = Parameters<BeginHandshake>[1];

/** The most connections that wait for this process to accept them; the kernel has a bound of its own. */
const backlog = 4096;

const anonymous: Client = { shown: "nothing" };

/**
 * Serves gRPC, gRPC-Web, Connect and plain HTTP without TLS, for the loopback interface and for networks that are
 * encrypted otherwise.
 *
 * @param guard The limits of callers; by default those of a monitoring port.
 */
export async function listenInPlaintext(
  routes: Routes,
  listen: ListenAddress,
  guard: Guard = createGuard(monitoringLimits),
): Promise<Port> {
  const protocols = new Protocols(routes, guard);
  const begin: BeginHandshake = (socket, done) => {
    socket.once("data", (first: Buffer) => {
      done(true);
      socket.pause();
      socket.unshift(first);
      const isHttp2 = first.toString("latin1", 0, 3) === "PRI";
      protocols.serve(socket, isHttp2 ? "h2" : "http/1.1", anonymous);
    });
    socket.resume();
  };
  return listening(listen, begin, protocols, guard);
}

/** Listens at an address and begins a handshake for each connection that the limits admit. */
export async function listening(
  listen: ListenAddress,
  begin: BeginHandshake,
  protocols: Protocols,
  { limits, reached, connections }: Guard,
): Promise<Port> {
  const handshakes = new Handshakes(limits, reached, begin, (...abuse) =>
    connections.ban(...abuse),
  );
  const server: Server = createServer({ pauseOnConnect: true, noDelay: true }, (socket) => {
    socket.on("error", () => socket.destroy());
    if (connections.isBanned(CallerAddress.of(socket.remoteAddress))) socket.destroy();
    else handshakes.take(socket);
  });
  server.listen({ ...listen, backlog });
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("not a TCP server");
  return {
    address,
    close: async (graceMilliseconds) => {
      server.close();
      handshakes.close();
      await protocols.close(graceMilliseconds);
    },
  };
}

/** The most lines of a key log in a second: a handshake has a handful, and an update of keys two. */
const mostKeyLines = 64;

/**
 * Calls `cut` for a peer that floods key updates (RFC 8446 §4.6.3): one of 27 octets costs as much as 4 KiB of data, no
 * other limit counts it, and OpenSSL accepts any number. Node reports each by a line of its key log, whose secret is
 * not read.
 */
function boundKeyUpdates(
  socket: Socket & { readonly _handle?: { readonly readStop: () => void } },
  clock: () => number,
  cut: () => void,
): void {
  let [lines, since] = [0, clock()];
  socket.on("keylog", () => {
    const now = clock();
    if (now - since > 1_000) [lines, since] = [0, now];
    if (++lines !== mostKeyLines) return;
    // Within OpenSSL's callback the connection cannot be ended yet, so it only stops reading.
    socket._handle?.readStop();
    setImmediate(cut);
  });
}

/** Serves both versions of HTTP on the connections of one port. */
export class Protocols {
  readonly #routes: Routes;
  readonly #guard: Guard;
  readonly #http1: HttpServer;
  readonly #sockets = new Map<Duplex, Http1Connection>();
  readonly #sessions = new Map<ServerHttp2Session, Client>();

  constructor(routes: Routes, guard: Guard) {
    this.#routes = routes;
    this.#guard = guard;
    this.#http1 = createHttp1Server(routes, guard, (socket) => this.#sockets.get(socket));
  }

  /** Serves a connection, or destroys it at a limit. @param below The TCP socket, if `socket` is one of TLS. */
  serve(socket: Socket, protocol: "http/1.1" | "h2", client: Client, below: Socket = socket): void {
    const { connections, clock } = this.#guard;
    let session: ServerHttp2Session | undefined;
    let allow: ((requests: number) => void) | undefined;
    const from = CallerAddress.of(socket.remoteAddress);
    const connection: Connection = {
      socket,
      from,
      address: from,
      requests: 0,
      idleSince: clock(),
      octetsRead: () => socket.bytesRead,
      sealedOctetsRead: () => below.bytesRead,
      allow: (requests) => allow?.(requests),
      close: () => (session ? session.close() : socket.end()),
      abort: () => {
        // Otherwise the session would parse all that it has read, and create a stream for each request.
        session?.destroy(undefined, constants.NGHTTP2_ENHANCE_YOUR_CALM);
        socket.destroy();
      },
    };
    const mayWait = (): boolean => connections.mayLongPoll(connection);
    const { clientCertificate } = client;
    const peer = { clientCertificate, address: socket.remoteAddress, mayWait };
    if (!connections.admit(connection)) return;
    boundKeyUpdates(socket, clock, () => connections.abort(connection, longBanMilliseconds));
    this.#sockets.set(socket, { peer, connection });
    socket.once("close", () => this.#sockets.delete(socket));
    if (protocol === "http/1.1") {
      this.#http1.emit("connection", socket);
      socket.resume();
      return;
    }
    const opened = serveHttp2(this.#routes, connection, peer, this.#guard);
    [session, allow] = [opened, allowing(opened, clock, connection.abort)];
    this.#sessions.set(opened, client);
    opened.once("close", () => this.#sessions.delete(opened));
  }

  /** Forgets the client certificates of open connections, whose clients must connect again to be verified anew. */
  forgetCertificates(): void {
    for (const [socket, { connection, peer }] of this.#sockets)
      this.#sockets.set(socket, { connection, peer: { ...peer, clientCertificate: undefined } });
    for (const [session, { shown }] of this.#sessions) if (shown !== "nothing") session.close();
  }

  async close(graceMilliseconds: number): Promise<void> {
    const ended = [...this.#sockets.keys()].map(closed);
    for (const session of this.#sessions.keys()) session.close();
    this.#http1.keepAliveTimeout = 1;
    this.#http1.close();
    const cut = setTimeout(() => {
      for (const socket of this.#sockets.keys()) socket.destroy();
    }, graceMilliseconds);
    await Promise.all(ended);
    clearTimeout(cut);
  }
}

/** Resolves when the socket closes, also after an error, for which `once` would reject. */
function closed(socket: Duplex): Promise<void> {
  return new Promise((resolve) => socket.once("close", () => resolve()));
}
