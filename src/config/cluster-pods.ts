import type { Pods, WatchPods } from "../kubernetes/pods.ts";
import { type ClusterAccess, reachCluster } from "./cluster-reach.ts";
import type { IssuerTable } from "./issuer-table.ts";

/** The pods of an issuer's cluster, given how to look them up. */
export type PodsOf = (table: IssuerTable, lookup: Pods, ending: AbortSignal) => Pods;

/** Watches the pods of every cluster with node proxies. No request asks for pods of the others. */
export function watchedPods(access: ClusterAccess, watch: WatchPods): PodsOf {
  return ({ cluster, kubernetes, trusted_node_accounts }, lookup, ending) => {
    if (!kubernetes || trusted_node_accounts.length === 0) return lookup;
    return watch(reachCluster(cluster, kubernetes, access), lookup, ending);
  };
}
