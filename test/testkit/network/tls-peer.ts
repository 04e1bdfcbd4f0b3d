import {
  connect,
  createSecureContext,
  createServer,
  type SecureContext,
  type TLSSocket,
} from "node:tls";

/** The certificate that a workload presents, and the roots that it trusts. */
export interface PeerCredentials {
  readonly spiffeId: string;
  readonly chainPem: string;
  readonly keyPem: string;
  readonly trustBundlePem: string;
}

/** Resolves when both sides have authenticated each other by name; rejects when either would not. */
export async function handshake(client: PeerCredentials, server: PeerCredentials): Promise<void> {
  const listener = createServer({
    ...tlsOptions(server),
    requestCert: true,
    rejectUnauthorized: true,
  });
  const authenticated = new Promise<void>((resolve, reject) => {
    listener.on("tlsClientError", reject);
    listener.on("secureConnection", (socket) => {
      socket.on("error", reject);
      requireName(socket, client.spiffeId);
      socket.end("welcome", () => resolve());
    });
  });
  await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
  const address = listener.address();
  const port = typeof address === "object" && address ? address.port : 0;
  try {
    await Promise.all([authenticated, call(port, client, server.spiffeId)]);
  } finally {
    listener.close();
  }
}

function call(port: number, client: PeerCredentials, serverName: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect(
      // The name is checked below: a SPIFFE certificate has no host name.
      {
        port,
        host: "127.0.0.1",
        secureContext: contextOf(client),
        checkServerIdentity: () => undefined,
      },
      () => requireName(socket, serverName),
    );
    let answer = "";
    socket.on("data", (chunk: Buffer) => {
      answer += chunk.toString();
    });
    socket.on("end", () => (answer === "welcome" ? resolve() : reject(new Error("not welcome"))));
    socket.on("error", reject);
  });
}

const contexts = new WeakMap<PeerCredentials, SecureContext>();

/** As proxies do, a client reads its credentials when it gets them, and not for every connection. */
function contextOf(client: PeerCredentials): SecureContext {
  const context = contexts.get(client) ?? createSecureContext(tlsOptions(client));
  contexts.set(client, context);
  return context;
}

function tlsOptions({ chainPem, keyPem, trustBundlePem }: PeerCredentials) {
  return { cert: chainPem, key: keyPem, ca: trustBundlePem };
}

function requireName(socket: TLSSocket, spiffeId: string): void {
  const name = socket.getPeerX509Certificate()?.subjectAltName;
  if (name !== `URI:${spiffeId}`) socket.destroy(new Error(`the peer is ${name}`));
}
