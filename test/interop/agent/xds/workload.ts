import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

/** The workload behind the second proxy. It serves only callers that the proxy has authenticated. */
interface Workload {
  readonly port: number;
  close(): void;
}

/** @param caller The SPIFFE ID in `x-forwarded-client-cert`. */
export async function startWorkload(caller: string): Promise<Workload> {
  const server = createServer(({ headers }, response) => {
    const shown = String(headers["x-forwarded-client-cert"]);
    const isKnown = shown.split(/[;,]/).includes(`URI=${caller}`);
    response.writeHead(isKnown ? 200 : 403).end(isKnown ? "served\n" : shown);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}
