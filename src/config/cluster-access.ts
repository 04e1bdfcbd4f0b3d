import * as z from "zod/mini";
import { CaError, ConfigurationError } from "../foundation/errors.ts";
import type { Fetching } from "../foundation/fetch.ts";
import {
  type Credential,
  createKubernetesClient,
  type KubernetesClient,
} from "../kubernetes/client.ts";
import {
  type ClusterApi,
  type ClusterFailed,
  createClusterApi,
  type ReachableCluster,
} from "../kubernetes/cluster-api.ts";
import type { Pods, WatchPods } from "../kubernetes/pods.ts";
import { parseForm, partition } from "./form.ts";
import { type ClusterAccessTable, credentialText, type IssuerTable } from "./issuer-table.ts";
import { keyServiceCredential, keyServiceCredentialText } from "./keks.ts";

/** All that it takes to reach the API servers of clusters. */
export interface ClusterAccess extends Fetching {
  readonly credentials: ReadonlyMap<string, Credential>;
  readonly failed: ClusterFailed;
}

/** A cluster with its client. It sends no request yet. @throws ConfigurationError */
function reachCluster(
  cluster: string,
  table: ClusterAccessTable,
  { failed, ...access }: ClusterAccess,
): ReachableCluster {
  return { cluster, client: clientOf(table, access), failed };
}

/** Opens an API of a cluster with bounds of its own, as often as it is called. */
export type OpenApi = () => ClusterApi;

/** @throws ConfigurationError */
export function apiOpener(
  cluster: string,
  table: ClusterAccessTable,
  access: ClusterAccess,
): OpenApi {
  const reach = reachCluster(cluster, table, access);
  return () => createClusterApi(reach);
}

/** A client of a cluster's API server. @throws ConfigurationError */
export function clientOf(
  { server, ca, credential: name }: ClusterAccessTable,
  { fetchTrusting, fetchTimeoutMilliseconds, aside, credentials }: Omit<ClusterAccess, "failed">,
): KubernetesClient {
  const credential = requireCredential(name, credentials);
  const fetch = fetchTrusting(ca);
  const client = createKubernetesClient({ server, credential }, fetch, fetchTimeoutMilliseconds);
  return aside ? { ...client, send: (request) => aside(() => client.send(request)) } : client;
}

function requireCredential(name: string, credentials: ClusterAccess["credentials"]): Credential {
  const credential = credentials.get(name);
  if (!credential) throw new ConfigurationError([`${name}: is required`]);
  return credential;
}

/** For programs that authenticate nobody, such as an operator's verbs: they need no credential. */
export function noApi(cluster: string): ClusterApi {
  return {
    cluster,
    send: async () => {
      throw new CaError(
        { reason: "cluster-unreachable", cluster },
        "this program has no access to the API server",
      );
    },
  };
}

/** The pods of an issuer's cluster, given how to look them up. */
export type PodsOf = (table: IssuerTable, lookup: Pods, ending: AbortSignal) => Pods;

/** Watches the pods of every cluster with node proxies. No request asks for pods of the others. */
export function watchedPods(access: ClusterAccess, watch: WatchPods): PodsOf {
  return ({ cluster, kubernetes, trusted_node_accounts }, lookup, ending) => {
    if (!kubernetes || trusted_node_accounts.length === 0) return lookup;
    return watch(reachCluster(cluster, kubernetes, access), lookup, ending);
  };
}

/** The credentials for API servers, for the CA upstream and for key services, by their names. */
export function parseCredentials(
  values: Readonly<Record<string, unknown>>,
): ReadonlyMap<string, Credential> {
  const [ofServices, bearers] = partition(values, (key) => keyServiceCredential.test(key));
  const texts = {
    ...parseForm(z.record(z.string(), credentialText), bearers),
    ...parseForm(z.record(z.string(), keyServiceCredentialText), ofServices),
  };
  return new Map(Object.entries(texts).map(([name, text]) => [name, () => text]));
}
