import type { Server as HttpServer } from "node:http";
import type { Server as HttpsServer } from "node:https";
import type { AddressInfo } from "node:net";

/** A server on the loopback address. */
export interface LoopbackServer {
  readonly host: string;
  readonly port: number;
  /** Cuts hanging connections. */
  readonly close: () => Promise<void>;
}

/** Has a server listen on a free port of the loopback address. */
export async function listenOnLoopback(server: HttpServer | HttpsServer): Promise<LoopbackServer> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    host: `127.0.0.1:${port}`,
    port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
