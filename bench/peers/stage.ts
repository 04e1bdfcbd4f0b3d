import type { Cluster, Workload } from "../workload.ts";

/** The surroundings that all CAs share: one cluster, one token, one CSR. */
export interface Stage {
  readonly cluster: Cluster;
  readonly keysUrl: string;
  readonly workload: Workload;
  /** For files of a run, removed after it. */
  readonly folder: string;
  /** The longest that the program of a CA may take to build. */
  readonly buildSeconds: number;
}
