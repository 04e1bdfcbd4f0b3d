import { createServer } from "node:http";
import { listenOnLoopback } from "../test/testkit/network/loopback.ts";
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
  const { host, close } = await listenOnLoopback(server);
  return {
    urlOf: (cluster) => `http://${host}/${clusters.indexOf(cluster)}`,
    fetches: () => fetches,
    close: () => void close(),
  };
}
