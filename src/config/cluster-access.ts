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
