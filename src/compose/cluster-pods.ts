import {
  type ClusterAccess,
  type ReachableCluster,
  reachCluster,
} from "../config/cluster-access.ts";
import type { IssuerTable } from "../config/issuer-table.ts";
import type { Pods } from "../kubernetes/pods.ts";

/** How a platform that can keeps up with a cluster's pods; what it does not know, it looks up. */
export type WatchPods = (cluster: ReachableCluster, lookup: Pods) => Pods;

/** The pods of an issuer's cluster, given how to look them up. */
export type PodsOf = (table: IssuerTable, lookup: Pods) => Pods;

/** Pods are watched where somebody may ask for them: where an issuer has node proxies. */
export function watchedPods(access: ClusterAccess, watch: WatchPods): PodsOf {
  return ({ cluster, kubernetes, trusted_node_accounts }, lookup) => {
    if (!kubernetes || trusted_node_accounts.length === 0) return lookup;
    return watch(reachCluster(cluster, kubernetes, access), lookup);
  };
}
