import type { ClusterAccessTable } from "../config/cluster-access.ts";
import { ConfigurationError } from "../foundation/configuration-error.ts";
import { CaError } from "../foundation/errors.ts";
import type { ClusterFetch } from "../foundation/json-fetch.ts";
import {
  type ApiServer,
  type ClusterUnreachable,
  type Credential,
  createApiServer,
  createKubernetesApi,
  type KubernetesApi,
  type ReachableCluster,
} from "../kubernetes/api-server.ts";

/** What access is made from. */
export interface ClusterAccess {
  readonly fetch: ClusterFetch;
  readonly credentials: ReadonlyMap<string, Credential>;
  readonly unreachable: ClusterUnreachable;
}

/** A cluster within reach; nothing is asked yet. @throws ConfigurationError */
export function reachCluster(
  cluster: string,
  { server, ca, credential: name }: ClusterAccessTable,
  { fetch, credentials, unreachable }: ClusterAccess,
): ReachableCluster {
  const credential = requireCredential(name, credentials);
  return { cluster, server, credential, fetch: fetch(ca), unreachable };
}

/** Its API. @throws ConfigurationError */
export function clusterApi(
  cluster: string,
  table: ClusterAccessTable,
  access: ClusterAccess,
): KubernetesApi {
  const reach = reachCluster(cluster, table, access);
  return createKubernetesApi(reach, reach.fetch, reach.unreachable);
}

/** The same for questions that nobody waits for. @throws ConfigurationError */
export function clusterServer(
  { server, ca, credential: name }: ClusterAccessTable,
  { fetch, credentials }: Omit<ClusterAccess, "unreachable">,
): ApiServer {
  return createApiServer({ server, credential: requireCredential(name, credentials) }, fetch(ca));
}

function requireCredential(name: string, credentials: ClusterAccess["credentials"]): Credential {
  const credential = credentials.get(name);
  if (!credential) throw new ConfigurationError([`${name}: is required`]);
  return credential;
}

/** Where nothing authenticates, as in an operator's terminal, no credential is needed either. */
export function noApi(cluster: string): KubernetesApi {
  return async () => {
    throw new CaError({ reason: "cluster-unreachable", cluster }, "no way to the API server");
  };
}
