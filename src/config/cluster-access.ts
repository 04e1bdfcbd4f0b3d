import type { IssuerKeys } from "../authn/issuer-keys.ts";
import type { NodeAuthorizer, TokenIssuer } from "../authn/token-issuer.ts";
import { createTokenReview, type TokenReview } from "../authn/token-review.ts";
import {
  createClaimedReach,
  createPodAuthorizer,
  type NodeReach,
} from "../ca/issuance/identity-policy.ts";
import type { CrlSource } from "../ca/revocation/published-crls.ts";
import { Lasting } from "../foundation/caches.ts";
import { CaError, ConfigurationError } from "../foundation/errors.ts";
import type { Fetching } from "../foundation/fetch.ts";
import { nameAllowList } from "../foundation/globs.ts";
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
import { createPodLookup, type Pods, type WatchPods } from "../kubernetes/pods.ts";
import type { ClusterAccessTable, IssuerTable } from "./issuer-table.ts";

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
  { fetchTrusting, fetchTimeoutMilliseconds, credentials }: Omit<ClusterAccess, "failed">,
): KubernetesClient {
  const credential = requireCredential(name, credentials);
  return createKubernetesClient(
    { server, credential },
    fetchTrusting(ca),
    fetchTimeoutMilliseconds,
  );
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

/** The means to ask the API server of an issuer's cluster. */
export interface CheckMeans {
  /** Absent where the issuer has no API server. */
  readonly openApi: OpenApi | undefined;
  /** Absent on platforms that look up each pod. */
  readonly podsOf: PodsOf | undefined;
  readonly lasting: LastingParts;
}

/** Decides which workloads the node proxies of an issuer may name. */
export function nodeAuthorizer(
  table: IssuerTable,
  { openApi, podsOf = (_, lookup) => lookup, lasting }: CheckMeans,
): NodeAuthorizer {
  const { node_checks, node_reach, trusted_node_accounts: nodes } = table;
  if (openApi && node_checks !== "claims") {
    const pods = lasting.pods.of([...placeOf(table), nodes.length > 0], (ending) =>
      podsOf(table, createPodLookup(openApi()), ending),
    );
    return createPodAuthorizer(pods);
  }
  return createClaimedReach(reachesOf(node_reach));
}

/** Only a table without node proxies may lack the setting; then no node reaches anything. */
function reachesOf(setting: IssuerTable["node_reach"] = []): readonly NodeReach[] {
  if (setting === "anywhere") return [{ isNode: () => true, isNamespace: () => true }];
  return setting.map(({ nodes, namespaces }) => ({
    isNode: nameAllowList(nodes),
    isNamespace: nameAllowList(namespaces),
  }));
}

/** The reviews of an issuer's tokens, where its API server gives any. */
export function reviewOf(
  table: IssuerTable,
  { openApi, lasting }: CheckMeans,
): TokenIssuer["review"] {
  const { audiences, kubernetes } = table;
  if (!kubernetes || !openApi) return undefined;
  const ask = lasting.reviews.of([...placeOf(table), audiences], () =>
    createTokenReview(audiences, { verified: openApi(), unverified: openApi() }),
  );
  return { order: kubernetes.review, ask };
}

/** An issuer and the way to its API server. */
function placeOf({ issuer, cluster, kubernetes }: IssuerTable): readonly unknown[] {
  return [issuer, cluster, kubernetes?.server, kubernetes?.ca, kubernetes?.credential];
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

/**
 * The parts of a CA that outlive a change of the configuration. Without them, a change of one cluster would
 * forget the keys of an issuer that cannot be reached now, list the pods of all clusters anew, and sign every
 * CRL again.
 */
export interface LastingParts {
  readonly keys: Lasting<IssuerKeys>;
  readonly reviews: Lasting<TokenReview>;
  readonly pods: Lasting<Pods>;
  readonly crls: Lasting<CrlSource>;
}

export const lastingParts = (): LastingParts => ({
  keys: new Lasting(),
  reviews: new Lasting(),
  pods: new Lasting(),
  crls: new Lasting(),
});
