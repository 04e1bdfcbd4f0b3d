import type { Socket } from "node:net";
import { createServer as createTlsServer, type TLSSocket } from "node:tls";
import { CallerAddress } from "../../foundation/shares.ts";
import type { Port } from "../../program/program.ts";
import { Handshake } from "../../program/tls-policy.ts";
import type { ListenAddress } from "../files/places.ts";
import type { Guard } from "../limits/guard.ts";
import { type BeginHandshake, Handshakes } from "../limits/handshakes.ts";
import { type ClientVerification, clientOf, type ServerCredentials, tlsOptions } from "../tls.ts";
import { type Done, listening, Protocols } from "./listener.ts";
import type { Routes } from "./routes.ts";

/** A port with TLS, whose credentials may change while it runs. */
export interface TlsListener extends Port {
  /**
   * Uses these credentials for every later handshake. Connections stay open. If the roots change, connections with a
   * client certificate accept no more calls, so that their clients reconnect.
   */
  readonly replace: (credentials: ServerCredentials) => void;
}

/** Node's longest timer, because {@link Handshakes} bounds the time of each handshake. */
const longestTimeout = 2 ** 31 - 1;

/** Serves gRPC, gRPC-Web, Connect and plain HTTP over TLS on one port. */
export async function listenWithTls(
  routes: Routes,
  listen: ListenAddress,
  credentials: ServerCredentials,
  verification: ClientVerification,
  guard: Guard,
): Promise<TlsListener> {
  const protocols = new Protocols(routes, guard);
  const tls = createTlsServer({ ...tlsOptions(credentials), handshakeTimeout: longestTimeout });
  const underWay = new Map<string, { readonly below: Socket; readonly done: Done }>();
  tls.on("secureConnection", (socket: TLSSocket) => {
    const client = clientOf(socket, verification);
    const { below = socket, done } = underWay.get(endOf(socket)) ?? {};
    done?.(client.shown !== "unacceptable");
    guard.agreed(Handshake.groupOf(socket));
    const protocol = socket.alpnProtocol === "h2" ? "h2" : "http/1.1";
    // The address may have been banned meanwhile, because of the CPU that its handshakes took.
    if (guard.connections.isBanned(CallerAddress.of(socket.remoteAddress))) socket.destroy();
    else protocols.serve(socket, protocol, client, below);
  });
  tls.on("tlsClientError", (error, { remoteAddress }) => guard.disagreed(error, remoteAddress));
  const begin: BeginHandshake = (socket, done) => {
    const end = endOf(socket);
    underWay.set(end, { below: socket, done });
    socket.once("close", () => underWay.delete(end));
    tls.emit("connection", socket);
  };
  let { clientRoots } = credentials;
  return {
    ...(await listening(listen, begin, protocols, guard)),
    replace: (next) => {
      tls.setSecureContext(tlsOptions(next));
      if (next.clientRoots !== clientRoots) protocols.forgetCertificates();
      clientRoots = next.clientRoots;
    },
  };
}

/** Identifies a connection, which is one socket before its handshake and another one after it. */
const endOf = ({ remoteAddress, remotePort }: Socket): string => `${remoteAddress} ${remotePort}`;
