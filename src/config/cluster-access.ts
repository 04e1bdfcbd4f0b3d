import { ClusterPush, type PushParts } from "../delivery/cluster-push.ts";
import { PushContent } from "../delivery/push-content.ts";
import type { RootTarget } from "../delivery/push-to-cluster.ts";
import { ConfigurationError } from "../foundation/errors.ts";
import type { Fetching } from "../foundation/fetch.ts";
import { type Credential, KubernetesClient } from "../kubernetes/client.ts";
import { ClusterApi, type ReachableCluster } from "../kubernetes/cluster-api.ts";
import { ConfigMapName } from "../kubernetes/names.ts";
import type { Pods, WatchPods } from "../kubernetes/pods.ts";
import type { CertificateAuthority } from "../transport/certificate-authority.ts";
import type { Configuration } from "./configuration.ts";
import type { ClusterAccessTable, IssuerTable } from "./issuer-table.ts";

/** What is needed to reach the API servers of clusters. */
export interface ClusterAccess extends Fetching {
  readonly credentials: ReadonlyMap<string, Credential>;
  readonly failed: ReachableCluster["failed"];
}

/** A cluster with its client. It sends no request yet. @throws ConfigurationError */
function reachCluster(
  cluster: string,
  table: ClusterAccessTable,
  { failed, ...access }: ClusterAccess,
): ReachableCluster {
  return { cluster, client: clientOf(table, access), failed };
}

/** Opens an API of a cluster. Each call opens another one, with limits of its own. */
export type OpenApi = () => ClusterApi;

/**
 * Prepares the access to a cluster's API server, with one client for all APIs that are opened. It sends no request yet.
 * @throws ConfigurationError if the credential is missing, or this platform cannot have the access.
 */
export function apiOpener(
  cluster: string,
  table: ClusterAccessTable,
  access: ClusterAccess,
): OpenApi {
  const reach = reachCluster(cluster, table, access);
  return () => ClusterApi.create(reach);
}

/** A client of a cluster's API server. It sends no request yet. @throws ConfigurationError if the credential is missing. */
export function clientOf(
  { server, ca, credential: name }: ClusterAccessTable,
  { fetchTrusting, fetchTimeoutMilliseconds, aside, credentials }: Omit<ClusterAccess, "failed">,
): KubernetesClient {
  const credential = requireCredential(name, credentials);
  const fetch = fetchTrusting(ca);
  const client = KubernetesClient.create({ server, credential }, fetch, fetchTimeoutMilliseconds);
  return aside ? { ...client, send: (request) => aside(() => client.send(request)) } : client;
}

function requireCredential(name: string, credentials: ClusterAccess["credentials"]): Credential {
  const credential = credentials.get(name);
  if (!credential) throw new ConfigurationError([`${name}: is required`]);
  return credential;
}

/** Chooses how the pods of an issuer's cluster are found: by a watch that runs until `ending`, or by `lookup` itself. */
export type PodsOf = (table: IssuerTable, lookup: Pods, ending: AbortSignal) => Pods;

/** Watches the pods of each cluster with node proxies. Other clusters get `lookup`, but nothing asks for their pods. */
export function watchedPods(access: ClusterAccess, watch: WatchPods): PodsOf {
  return ({ cluster, kubernetes, trusted_node_accounts }, lookup, ending) => {
    if (!kubernetes || trusted_node_accounts.length === 0) return lookup;
    return watch(reachCluster(cluster, kubernetes, access), lookup, ending);
  };
}

/** The CA whose roots and CRLs are delivered. */
export interface PushSource extends Pick<CertificateAuthority, "crls"> {
  readonly issuance: Pick<CertificateAuthority["issuance"], "authorities">;
}

/** The deliveries of a configuration to its clusters. @throws ConfigurationError as {@link rootTargets}. */
export function createPushes(
  configuration: Configuration,
  { issuance: { authorities }, crls }: PushSource,
  fetching: Fetching,
  parts: Pick<PushParts, "limits" | "log">,
) {
  const lists = new ClusterPush({
    ...parts,
    targets: crlTargets(configuration, fetching),
    content: PushContent.crls(crls, authorities, parts.log),
  });
  const roots = new ClusterPush({
    ...parts,
    targets: rootTargets(configuration, fetching),
    content: PushContent.trustBundle(authorities),
    after: lists,
  });
  /** Each cluster gets its CRLs first (`after`), because Envoy refuses certificates under a root without a CRL. */
  const deliver: ClusterPush["deliver"] = async (now, ending) => {
    await Promise.all([lists.deliver(now, ending), roots.deliver(now, ending)]);
  };
  return { roots, crls: lists, deliver };
}

/**
 * Lists the clusters whose issuer tables say `deliver_roots`. A cluster with two tables, as during a change of its
 * issuer, is one target.
 *
 * @throws ConfigurationError if a credential is missing, or this platform cannot have the access.
 */
export function rootTargets(configuration: Configuration, fetching: Fetching): RootTarget[] {
  return targetsOf(
    configuration,
    fetching,
    ({ deliver_roots, config_map = ConfigMapName.ofRoots }) =>
      deliver_roots ? config_map : undefined,
  );
}

/** Lists the clusters whose issuer tables say `deliver_crls`, each once. @throws ConfigurationError as {@link rootTargets}. */
export function crlTargets(configuration: Configuration, fetching: Fetching): RootTarget[] {
  return targetsOf(configuration, fetching, ({ deliver_crls }) =>
    deliver_crls ? ConfigMapName.ofCrls : undefined,
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
    targets.set(key, { cluster, server: kubernetes.server, configMap, client });
  }
  return [...targets.values()];
}
