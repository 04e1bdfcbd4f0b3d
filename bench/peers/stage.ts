import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import type { Cluster, Workload } from "../workload.ts";

/** The surroundings that all CAs share: one cluster, one token, one CSR. */
export interface Stage {
  readonly cluster: Cluster;
  readonly keysUrl: string;
  readonly workload: Workload;
  /** For files of a run, removed after it. */
  readonly folder: string;
}

/** A port of this machine that is free now. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}
