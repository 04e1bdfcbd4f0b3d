import type { RequestListener } from "node:http";
import { createServer } from "node:https";
import { onTestFinished } from "vitest";
import { listenOnLoopback } from "./loopback.ts";
import { createTlsIdentity } from "./tls-identity.ts";

/** A server on the loopback address with a certificate that only a test trusts. */
export interface TlsServer {
  readonly origin: string;
  /** The root to trust, PEM. */
  readonly ca: string;
}

export async function startTlsServer(listener: RequestListener): Promise<TlsServer> {
  const { key, ca } = await createTlsIdentity();
  const server = createServer({ key, cert: ca }, listener);
  const { host, close } = await listenOnLoopback(server);
  // A connection that switched protocols is neither cut nor awaited.
  onTestFinished(() => void close());
  return { origin: `https://${host}`, ca };
}
