import { type ClusterPush, createClusterPush, type PushParts } from "../delivery/cluster-push.ts";
import { crlContent, trustBundleContent } from "../delivery/push-content.ts";
import type { RootTarget } from "../delivery/push-to-cluster.ts";
import type { Fetching } from "../foundation/fetch.ts";
import { crlConfigMap, usualConfigMap } from "../kubernetes/root-config-map.ts";
import type { CertificateAuthority } from "../transport/certificate-authority.ts";
import { clientOf } from "./cluster-access.ts";
import type { Configuration } from "./configuration.ts";
import type { ClusterAccessTable } from "./issuer-table.ts";

/** The CA whose roots and CRLs are delivered. */
export interface PushSource extends Pick<CertificateAuthority, "crls"> {
  readonly issuance: Pick<CertificateAuthority["issuance"], "authorities">;
}

/** The deliveries of a configuration to its clusters. */
interface Pushes {
  readonly roots: ClusterPush;
  readonly crls: ClusterPush;
  /** Delivers both, a cluster's CRLs first: a root without its CRL has Envoy refuse what is under it. */
  readonly deliver: ClusterPush["deliver"];
}

/** @throws ConfigurationError as {@link rootTargets}. */
export function createPushes(
  configuration: Configuration,
  { issuance: { authorities }, crls }: PushSource,
  fetching: Fetching,
  parts: Pick<PushParts, "limits" | "log">,
): Pushes {
  const lists = createClusterPush({
    ...parts,
    targets: crlTargets(configuration, fetching),
    content: crlContent(crls, authorities, parts.log),
  });
  const roots = createClusterPush({
    ...parts,
    targets: rootTargets(configuration, fetching),
    content: trustBundleContent(authorities),
    after: lists,
  });
  const deliver: ClusterPush["deliver"] = async (now, ending) => {
    await Promise.all([lists.deliver(now, ending), roots.deliver(now, ending)]);
  };
  return { roots, crls: lists, deliver };
}

/**
 * The clusters whose tables say `deliver_roots`. An API server that is changing its issuer has two tables
 * and counts once.
 *
 * @throws ConfigurationError if a credential is missing, or this platform cannot have the access.
 */
export function rootTargets(configuration: Configuration, fetching: Fetching): RootTarget[] {
  return targetsOf(configuration, fetching, ({ deliver_roots, config_map = usualConfigMap }) =>
    deliver_roots ? config_map : undefined,
  );
}

/** {@link rootTargets} for those that say `deliver_crls`. */
export function crlTargets(configuration: Configuration, fetching: Fetching): RootTarget[] {
  return targetsOf(configuration, fetching, ({ deliver_crls }) =>
    deliver_crls ? crlConfigMap : undefined,
  );
}

function targetsOf(
  { issuers, clusterCredentials: credentials }: Configuration,
  fetching: Fetching,
  configMapOf: (table: ClusterAccessTable) => string | undefined,
): RootTarget[] {
  const targets = new Map<string, RootTarget>();
  for (const { cluster, kubernetes } of issuers) {
    const configMap = kubernetes && configMapOf(kubernetes);
    if (kubernetes === undefined || configMap === undefined) continue;
    const key = `${kubernetes.server} ${configMap}`;
    if (targets.has(key)) continue;
    const client = clientOf(kubernetes, { ...fetching, credentials });
    targets.set(key, { cluster, configMap, client });
  }
  return [...targets.values()];
}
