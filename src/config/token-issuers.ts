import { IssuerKeys, type KeyFetching } from "../authn/issuer-keys.ts";
import { createSubjectMapping } from "../authn/subject-claims.ts";
import type { ClusterSigner, NodeAuthorizer, TokenIssuer } from "../authn/token-issuer.ts";
import { TokenReview } from "../authn/token-review.ts";
import type { SubjectMapping } from "../authn/token-subject.ts";
import type { EventLog } from "../ca/issuance/event-log.ts";
import { NodeReach } from "../ca/issuance/identity-policy.ts";
import { DocumentFetch, type Fetching } from "../foundation/fetch.ts";
import { nameAllowList } from "../foundation/globs.ts";
import { Semaphore, type WorkSharing } from "../foundation/shared-work.ts";
import { ClusterApi, type ReachableCluster } from "../kubernetes/cluster-api.ts";
import { Pods, type WatchPods } from "../kubernetes/pods.ts";
import type { ServiceAccount } from "../pki/spiffe-id.ts";
import { IdentityProof } from "../pki/x509/leaf/identity-proof.ts";
import { clientOf } from "./cluster-access.ts";
import type { Configuration } from "./configuration.ts";
import { subjectTableOf } from "./internal/subject-table.ts";
import type { ClusterSignerTable, IssuerTable } from "./issuer-table.ts";
import type { ReusedParts } from "./reload-pool.ts";

/** The means of a platform to reach issuers and clusters. */
export interface ClusterPlatform {
  readonly log: EventLog;
  readonly fetching: Fetching;
  /** Absent on platforms that look up a pod for each call. */
  readonly watchPods?: WatchPods;
  readonly shareWork: WorkSharing;
  /** Present where the configuration may change while a program runs. */
  readonly pools?: ReusedParts;
}

const madeAnew: { readonly of: <T>(_: unknown, make: (ending: AbortSignal) => T) => T } = {
  of: (_, make) => make(new AbortController().signal),
};

/** Pools for a CA whose configuration never changes: each part is made anew, and its signal never aborts. */
export const withoutReload: ReusedParts = {
  keys: madeAnew,
  reviews: madeAnew,
  pods: madeAnew,
  crls: madeAnew,
};

/** The most requests that wait for the keys of any issuer at once. */
const maximumWaiting = 2000;
const maximumWaitingOperators = 100;

/**
 * Makes an issuer from each table of `ISSUERS`, with its keys, token reviews and watched pods. They are
 * reused from earlier configurations where the tables are the same. Without `renewal_limit`, a table with `subjects`
 * allows no renewal, and another one has the configuration's limit.
 * @throws ConfigurationError for access to a cluster that this platform cannot have.
 */
export function tokenIssuers(
  { issuers, renewalSeconds, clusterCredentials: credentials }: Configuration,
  platform: ClusterPlatform,
): readonly TokenIssuer[] {
  const { log, fetching, watchPods, pools = withoutReload } = platform;
  const keys = keyFetching(platform, maximumWaiting);
  const failed: ReachableCluster["failed"] = (cluster, error) => {
    const event = ClusterApi.isBusy(error) ? "cluster-busy" : "cluster-unreachable";
    log.operation({ event, level: "warning", cluster, detail: error.message });
  };
  const clusterOf = ({ cluster, kubernetes }: IssuerTable): ReachableCluster | undefined =>
    kubernetes && { cluster, client: clientOf(kubernetes, { ...fetching, credentials }), failed };
  return issuers.map((table) => {
    // No renewals by default: a job of CI can show its token for as long as it runs.
    const { renewal_limit = table.subjects ? 0 : renewalSeconds } = table;
    return tokenIssuer({ ...table, renewal_limit }, { keys, clusterOf, watchPods, pools });
  });
}

/** The fetched keys of an issuer of tokens for operators, with the same bounds as those of issuers for workloads. */
export function operatorKeys(issuer: string, url: string, platform: ClusterPlatform): IssuerKeys {
  const { pools = withoutReload } = platform;
  return pools.keys.of(["operators", issuer, url], () => {
    const fetching = keyFetching(platform, maximumWaitingOperators);
    return IssuerKeys.published(issuer, url, fetching);
  });
}

/** @param maximumWaiting The most requests that wait for keys at once. */
function keyFetching(
  { log, fetching, shareWork }: ClusterPlatform,
  maximumWaiting: number,
): KeyFetching {
  return {
    fetchJson: DocumentFetch.create(fetching),
    fetchTimeoutMilliseconds: fetching.fetchTimeoutMilliseconds,
    keyFetchFailed: (issuer, { message: detail }) =>
      log.operation({ event: "issuer-keys-unreachable", level: "warning", issuer, detail }),
    shareWork,
    waitingCapacity: new Semaphore(maximumWaiting),
  };
}

interface IssuerContext {
  readonly keys: KeyFetching;
  /** Prepares the access to the API server of an issuer's cluster: with a client, and so bounds, of its own for each call. */
  readonly clusterOf: (table: IssuerTable) => ReachableCluster | undefined;
  readonly watchPods: WatchPods | undefined;
  readonly pools: ReusedParts;
}

function tokenIssuer(
  table: IssuerTable & { readonly renewal_limit: number },
  { keys, clusterOf, watchPods, pools }: IssuerContext,
): TokenIssuer {
  const issuer = {
    name: table.issuer,
    digest: IdentityProof.issuerDigest(table.issuer),
    renewalSeconds: table.renewal_limit,
    audiences: table.audiences,
    cluster: table.cluster,
    clusterAliases: table.cluster_aliases,
    keys: issuerKeys(table, keys, pools),
    ...namespaceRights(table),
  };
  const subjects = subjectMappingOf(table);
  if (subjects) return { ...issuer, subjects };
  const cluster = clusterOf(table);
  const checks: CheckContext = {
    openApi: cluster && (() => ClusterApi.create(cluster)),
    watch: (lookup, ending) => {
      const watched = watchPods && clusterOf(table);
      return watched ? watchPods(watched, lookup, ending) : lookup;
    },
    pools,
  };
  return {
    ...issuer,
    ...accountRights(table),
    review: reviewOf(table, checks),
    requireNode: nodeAuthorizer(table, checks),
  };
}

/** The rights of all tokens of an issuer, which the namespaces and audiences of its table bound. */
export function namespaceRights({ namespaces, jwt_audiences }: IssuerTable) {
  const mayUse = nameAllowList(namespaces);
  return {
    mayVouchFor: ({ namespace }: ServiceAccount) => mayUse(namespace),
    mayAddress: jwt_audiences && nameAllowList(jwt_audiences),
  };
}

/** The further rights that the table of an issuer grants to single accounts. */
export function accountRights(table: IssuerTable) {
  const nodeAccounts = new Set(table.trusted_node_accounts.map(accountName));
  const gatewayOf = byAccount(table.gateways, (each) => each);
  return {
    isNodeAccount: (account: ServiceAccount) => nodeAccounts.has(accountName(account)),
    gatewayNames: gatewayOf && ((account: ServiceAccount) => gatewayOf(account)?.dns_names),
    mayForwardIdentities: (account: ServiceAccount) =>
      gatewayOf?.(account)?.forwards === "identities",
    clusterSigner: byAccount(table.cluster_signers, clusterSigner),
    intermediateRights: byAccount(table.intermediates, (each) => ({
      trustDomain: each.trust_domain,
      pathLength: each.path_length,
      isConstrained: each.name_constraints,
    })),
  };
}

/** Makes a function that finds the value of the table of an account; `undefined` if there are no tables. */
function byAccount<T extends { readonly account: ServiceAccount }, V>(
  tables: readonly T[],
  toValue: (table: T) => V,
): ((account: ServiceAccount) => V | undefined) | undefined {
  if (tables.length === 0) return undefined;
  const values = new Map(tables.map((each) => [accountName(each.account), toValue(each)]));
  return (account) => values.get(accountName(account));
}

const accountName = ({ namespace, name }: ServiceAccount): string => `${namespace}/${name}`;

function clusterSigner({ namespaces, dns_names }: ClusterSignerTable): ClusterSigner {
  const isNamespace = nameAllowList(namespaces);
  return {
    maySignFor: ({ namespace }) => isNamespace(namespace),
    mayName: nameAllowList(dns_names),
  };
}

/** The compiled `subjects` of an issuer; `undefined` for an issuer of ServiceAccounts. */
export function subjectMappingOf(table: IssuerTable): SubjectMapping | undefined {
  const subjects = subjectTableOf(table);
  return subjects && createSubjectMapping(subjects);
}

function issuerKeys(
  { issuer, jwks, jwks_uri }: IssuerTable,
  fetching: KeyFetching,
  { keys }: ReusedParts,
): IssuerKeys {
  if (jwks) return IssuerKeys.pinned(jwks);
  return keys.of([issuer, jwks_uri], () => IssuerKeys.published(issuer, jwks_uri, fetching));
}

/** The means to ask the API server of an issuer's cluster. */
export interface CheckContext {
  /** Opens an API of the server, with limits of its own. Absent where the issuer has no API server. */
  readonly openApi: (() => ClusterApi) | undefined;
  /** Watches the pods until `ending`; returns `lookup` itself on platforms that look up each pod. */
  readonly watch: (lookup: Pods, ending: AbortSignal) => Pods;
  readonly pools: ReusedParts;
}

/**
 * Decides which workloads the node proxies of an issuer may name: those whose pods are on the node, or, without an API
 * server or with `node_checks = "claims"`, those in `node_reach`.
 */
export function nodeAuthorizer(
  table: IssuerTable,
  { openApi, watch, pools }: CheckContext,
): NodeAuthorizer {
  const { node_checks, node_reach, trusted_node_accounts: nodes } = table;
  if (openApi && node_checks !== "claims") {
    const hasProxies = nodes.length > 0;
    const pods = pools.pods.of([...placeOf(table), hasProxies], (ending) => {
      const lookup = Pods.create(openApi());
      // Without node proxies nothing asks for the pods.
      return hasProxies ? watch(lookup, ending) : lookup;
    });
    return NodeReach.ofPods(pods);
  }
  return NodeReach.ofClaims(reachesOf(node_reach));
}

/** Only a table without node proxies may lack the setting; then no node reaches anything. */
function reachesOf(setting: IssuerTable["node_reach"] = []): readonly NodeReach[] {
  if (setting === "anywhere") return [{ isNode: () => true, isNamespace: () => true }];
  return setting.map(({ nodes, namespaces }) => ({
    isNode: nameAllowList(nodes),
    isNamespace: nameAllowList(namespaces),
  }));
}

/** The reviews of an issuer's tokens; `undefined` without access to its API server. */
export function reviewOf(
  table: IssuerTable,
  { openApi, pools }: CheckContext,
): TokenIssuer["review"] {
  const { audiences, kubernetes } = table;
  if (!kubernetes || !openApi) return undefined;
  const ask = pools.reviews.of([...placeOf(table), audiences], () =>
    TokenReview.create(audiences, { verified: openApi(), unverified: openApi() }),
  );
  return { order: kubernetes.review, ask };
}

/** What identifies an issuer, and the access to its API server. */
function placeOf({ issuer, cluster, kubernetes }: IssuerTable): readonly unknown[] {
  return [issuer, cluster, kubernetes?.server, kubernetes?.ca, kubernetes?.credential];
}
