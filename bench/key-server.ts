import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { Cluster } from "./workload.ts";

/** A server of JWK Sets that counts its requests. */
export interface KeyServer {
  readonly urlOf: (cluster: Cluster) => string;
  readonly fetches: () => number;
  readonly close: () => void;
}

/** Serves the keys of clusters on a free port of this machine. */
export async function startKeyServer(clusters: readonly Cluster[]): Promise<KeyServer> {
  let fetches = 0;
  const server = createServer((request, response) => {
    fetches++;
    response
      .setHeader("content-type", "application/json")
      .end(JSON.stringify(clusters[Number(request.url?.slice(1))]?.keySet));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    urlOf: (cluster) => `http://127.0.0.1:${port}/${clusters.indexOf(cluster)}`,
    fetches: () => fetches,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
