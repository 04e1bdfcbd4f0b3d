import type { Configuration } from "../config/configuration.ts";
import type { RootTarget } from "../delivery/push-to-cluster.ts";
import type { Fetching } from "../foundation/http/json-fetch.ts";
import { usualConfigMap } from "../kubernetes/root-config-map.ts";
import { clientOf } from "./cluster-reach.ts";

/**
 * The clusters whose tables say `deliver_roots`. An API server that is changing its issuer has two tables
 * and counts once.
 *
 * @throws ConfigurationError if a credential is missing, or this platform cannot have the access.
 */
export function rootTargets(
  { issuers, clusterCredentials: credentials }: Configuration,
  fetching: Fetching,
): RootTarget[] {
  const targets = new Map<string, RootTarget>();
  for (const { cluster, kubernetes } of issuers) {
    if (!kubernetes?.deliver_roots) continue;
    const configMap = kubernetes.config_map ?? usualConfigMap;
    const key = `${kubernetes.server} ${configMap}`;
    if (targets.has(key)) continue;
    const client = clientOf(kubernetes, { ...fetching, credentials });
    targets.set(key, { cluster, configMap, client });
  }
  return [...targets.values()];
}
