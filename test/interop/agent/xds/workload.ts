import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

/** The workload behind the second proxy. It serves only callers that the proxy has authenticated. */
export interface Workload {
  readonly port: number;
  /** Changes what its own health check answers. */
  setHealthy(isHealthy: boolean): void;
  close(): void;
}

/** @param caller The SPIFFE ID in `x-forwarded-client-cert`. */
export async function startWorkload(caller: string): Promise<Workload> {
  let isHealthy = true;
  const server = createServer(({ url, headers }, response) => {
    if (url === "/health") return void response.writeHead(isHealthy ? 200 : 500).end();
    const shown = String(headers["x-forwarded-client-cert"]);
    const isKnown = shown.split(/[;,]/).includes(`URI=${caller}`);
    return void response.writeHead(isKnown ? 200 : 403).end(isKnown ? "served\n" : shown);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    setHealthy: (value) => {
      isHealthy = value;
    },
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}
