import type { RequestListener } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";
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
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return { origin: `https://127.0.0.1:${(server.address() as AddressInfo).port}`, ca };
}
