import type { RequestListener } from "node:http";
import { createServer } from "node:https";
import { onTestFinished } from "vitest";
import { listenOnLoopback } from "./loopback.ts";
import { createTlsIdentity } from "./tls-identity.ts";

/** A server of this machine behind a certificate that nobody but a test trusts. */
export interface TlsServer {
  readonly origin: string;
  /** PEM of what to trust. */
  readonly ca: string;
}

export async function startTlsServer(listener: RequestListener): Promise<TlsServer> {
  const { key, ca } = await createTlsIdentity();
  const server = createServer({ key, cert: ca }, listener);
  const { host, close } = await listenOnLoopback(server);
  // What has left HTTP is not cut, and not waited for.
  onTestFinished(() => void close());
  return { origin: `https://${host}`, ca };
}
