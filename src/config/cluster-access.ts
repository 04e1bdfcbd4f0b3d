import { ClusterPush, type PushParts } from "../delivery/cluster-push.ts";
import { PushContent } from "../delivery/push-content.ts";
import type { RootTarget } from "../delivery/push-to-cluster.ts";
import { ConfigurationError } from "../foundation/errors.ts";
import type { Fetching } from "../foundation/fetch.ts";
import { type Credential, KubernetesClient } from "../kubernetes/client.ts";
import { ConfigMapName } from "../kubernetes/names.ts";
import type { CertificateAuthority } from "../transport/certificate-authority.ts";
import type { Configuration } from "./configuration.ts";
import type { ClusterAccessTable } from "./issuer-table.ts";

/** What is needed to reach the API servers of clusters. */
export interface ClusterAccess extends Fetching {
  readonly credentials: ReadonlyMap<string, Credential>;
}

/**
 * Creates a client of a cluster's API server. It sends no request yet.
 * @throws ConfigurationError if the credential is missing, or this platform cannot have the access.
 */
export function clientOf(
  { server, ca, credential: name }: ClusterAccessTable,
  { fetchTrusting, fetchTimeoutMilliseconds, aside, credentials }: ClusterAccess,
): KubernetesClient {
  const credential = credentials.get(name);
  if (!credential) throw new ConfigurationError([`${name}: is required`]);
  const fetch = fetchTrusting(ca);
  const client = KubernetesClient.create({ server, credential }, fetch, fetchTimeoutMilliseconds);
  return aside ? { ...client, send: (request) => aside(() => client.send(request)) } : client;
}

/** The CA whose roots and CRLs are delivered. */
export interface PushSource extends Pick<CertificateAuthority, "crls"> {
  readonly issuance: Pick<CertificateAuthority["issuance"], "authorities">;
}

/** The deliveries of a configuration to its clusters. @throws ConfigurationError as {@link pushTargets}. */
export function createPushes(
  configuration: Configuration,
  { issuance: { authorities }, crls }: PushSource,
  fetching: Fetching,
  parts: Pick<PushParts, "limits" | "log">,
) {
  const lists = new ClusterPush({
    ...parts,
    targets: pushTargets("deliver_crls", configuration, fetching),
    content: PushContent.crls(crls, authorities, parts.log),
  });
  const roots = new ClusterPush({
    ...parts,
    targets: pushTargets("deliver_roots", configuration, fetching),
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
 * Lists the clusters whose issuer tables want roots, or CRLs. A cluster with two tables, as during a change of its
 * issuer, is one target.
 *
 * @throws ConfigurationError if a credential is missing, or this platform cannot have the access.
 */
export function pushTargets(
  wanted: "deliver_roots" | "deliver_crls",
  { issuers, clusterCredentials: credentials }: Configuration,
  fetching: Fetching,
): RootTarget[] {
  const targets = new Map<string, RootTarget>();
  for (const { cluster, kubernetes } of issuers) {
    if (!kubernetes?.[wanted]) continue;
    const { server, config_map = ConfigMapName.ofRoots } = kubernetes;
    const configMap = wanted === "deliver_crls" ? ConfigMapName.ofCrls : config_map;
    const key = `${server} ${configMap}`;
    if (targets.has(key)) continue;
    const client = clientOf(kubernetes, { ...fetching, credentials });
    targets.set(key, { cluster, server, configMap, client });
  }
  return [...targets.values()];
}
