import { request as httpRequest } from "node:http";
import { type AgentOptions, Agent as HttpsAgent, request as httpsRequest } from "node:https";
import { connect as connectTcp, isIP, Socket } from "node:net";
import { Duplex } from "node:stream";
import {
  type ConnectionOptions,
  checkServerIdentity,
  connect,
  type SecureContextOptions,
} from "node:tls";
import { Host } from "../../foundation/addresses.ts";
import { errorCode } from "../files/small-file.ts";
import { SystemRoots } from "../system-roots.ts";
import { Handshake } from "../tls-policy.ts";
import {
  type Destination,
  EnvironmentProxies,
  type ProxyFor,
  type ProxyServer,
} from "./proxies.ts";

/**
 * Options of TLS: roots instead of the system's, a client certificate, the name to require of the server's certificate.
 */
export type ClientTls = SecureContextOptions &
  Pick<ConnectionOptions, "servername" | "checkServerIdentity">;

/** Options that require a name in the server's certificate. It is also the SNI unless it is an address (RFC 6066). */
export const judgedBy = (name: string): ClientTls =>
  isIP(name) === 0
    ? { servername: name }
    : { servername: "", checkServerIdentity: (_, shown) => checkServerIdentity(name, shown) };

/** How long a proxy may take for its answer to CONNECT. */
const connectMilliseconds = 15_000;

/** The interval at which TCP probes an idle connection. */
export const probeMilliseconds = 15_000;

/**
 * Opens a connection to a server through a proxy, by CONNECT (RFC 9110 §9.3.6).
 *
 * @throws Error whose code begins with `PROXY_`, for a proxy that refuses or fails.
 */
function openTunnel(proxy: ProxyServer, { host, port }: Destination): Promise<Socket> {
  const authority = `${Host.bracketed(host)}:${port}`;
  const { isTls, authorization } = proxy;
  const request = (isTls ? httpsRequest : httpRequest)({
    host: proxy.host,
    port: proxy.port,
    method: "CONNECT",
    path: authority,
    headers: {
      host: authority,
      "user-agent": "rampart",
      ...(authorization !== undefined && { "proxy-authorization": authorization }),
    },
    agent: false,
    timeout: connectMilliseconds,
  });
  return new Promise((resolve, reject) => {
    const fail = (code: string, message: string, cause?: unknown): void => {
      const error = new Error(`the proxy ${proxy.shown} ${message}`, { cause });
      reject(Object.assign(error, { code: `PROXY_${code}` }));
      request.destroy();
    };
    request.on("connect", ({ statusCode = 0 }, socket, head) => {
      if (statusCode !== 200) {
        fail(`STATUS_${statusCode}`, `answered CONNECT with status ${statusCode}`);
        return;
      }
      socket.setTimeout(0);
      socket.setKeepAlive(true, probeMilliseconds);
      if (head.length > 0) socket.unshift(head);
      resolve(socket);
    });
    request.on("timeout", () => fail("TIMEOUT", "did not answer CONNECT in time"));
    request.on("error", (error) => fail(errorCode(error) ?? "FAILED", "cannot be reached", error));
    request.end();
  });
}

/**
 * Connections of HTTP/1.1 over TLS, direct or through a proxy. Once one is opened without `ca`, the whole process trusts
 * the roots of this machine ({@link SystemRoots.trust}).
 */
export class TlsAgent extends HttpsAgent {
  readonly #proxyFor: ProxyFor;
  /** Whether the latest connection waits for a server to finish the handshake. */
  isInHandshake = (): boolean => false;

  constructor(options: AgentOptions, proxyFor: ProxyFor = EnvironmentProxies.proxyFor) {
    super(options);
    this.#proxyFor = proxyFor;
  }

  override createConnection(
    ...[options, done]: Parameters<HttpsAgent["createConnection"]>
  ): ReturnType<HttpsAgent["createConnection"]> {
    const { host, port, ca } = options;
    if (ca === undefined) SystemRoots.trust();
    const destination = { isTls: true, host: host ?? "", port: Number(port) };
    const proxy = this.#proxyFor(destination);
    const follow = (connection: Duplex | null | undefined): typeof connection => {
      if (connection instanceof Socket) this.isInHandshake = Handshake.watch(connection);
      return connection;
    };
    if (!proxy || !done) return follow(super.createConnection(options, done));
    const secured = (socket: Socket): ReturnType<HttpsAgent["createConnection"]> => {
      const tunneled = { ...options, socket };
      return follow(super.createConnection(tunneled));
    };
    openTunnel(proxy, destination).then(
      (socket) => done(null, secured(socket) ?? socket),
      (error) => done(error, new Duplex()),
    );
    return undefined;
  }
}

/**
 * Begins a connection, direct or through a proxy, which the `createConnection` of one HTTP/2 session returns. The
 * returned socket may still be connecting, or in the TLS handshake. As in gRPC's own clients, `HTTPS_PROXY` applies to
 * plaintext too.
 *
 * A tunnel is opened before the session: on a stream that is still connecting, Node delivers short answers after the end
 * of their streams.
 *
 * @throws Error whose code begins with `PROXY_`, if a proxy refuses or fails.
 */
export async function connectSession(origin: string, tls: ClientTls): Promise<Socket> {
  const { protocol, hostname, port } = new URL(origin);
  const isTls = protocol === "https:";
  const host = hostname.replace(/^\[|\]$/g, "");
  const destination = { isTls: true, host, port: Number(port) || (isTls ? 443 : 80) };
  const proxy = EnvironmentProxies.proxyFor(destination);
  const tunnel = proxy && (await openTunnel(proxy, destination));
  if (!isTls) return tunnel ?? connectTcp(destination);
  const servername = tls.servername ?? (isIP(host) === 0 ? host : "");
  const over = tunnel ? { socket: tunnel } : { port: destination.port };
  return connect({ ...tls, ...over, host, servername, ALPNProtocols: ["h2"] });
}
