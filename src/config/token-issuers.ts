import { IssuerKeys, type KeyFetchFailed, type KeyFetching } from "../authn/issuer-keys.ts";
import { createSubjectMapping } from "../authn/subject-claims.ts";
import type { NodeAuthorizer, TokenIssuer } from "../authn/token-issuer.ts";
import { TokenReview } from "../authn/token-review.ts";
import type { SubjectMapping } from "../authn/token-subject.ts";
import type { EventLog } from "../ca/issuance/event-log.ts";
import { NodeReach } from "../ca/issuance/identity-policy.ts";
import { DocumentFetch, type Fetching } from "../foundation/fetch.ts";
import { nameAllowList } from "../foundation/globs.ts";
import { Semaphore, type WorkSharing } from "../foundation/shared-work.ts";
import type { ReachableCluster } from "../kubernetes/cluster-api.ts";
import { ClusterApi } from "../kubernetes/cluster-api.ts";
import { Pods, type WatchPods } from "../kubernetes/pods.ts";
import { IdentityProof } from "../pki/x509/leaf/identity-proof.ts";
import {
  apiOpener,
  type ClusterAccess,
  type OpenApi,
  type PodsOf,
  watchedPods,
} from "./cluster-access.ts";
import type { Configuration } from "./configuration.ts";
import { issuerRights, subjectRights } from "./internal/rights.ts";
import { subjectTableOf } from "./internal/subject-table.ts";
import type { IssuerTable } from "./issuer-table.ts";
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
  const access = { ...fetching, credentials, failed: clusterLog(log) };
  const podsOf = watchPods && watchedPods(access, watchPods);
  const keys = keyFetching(platform, maximumWaiting);
  return issuers.map((table) => {
    // No renewals by default: a job of CI can show its token for as long as it runs.
    const { renewal_limit = table.subjects ? 0 : renewalSeconds } = table;
    return tokenIssuer({ ...table, renewal_limit }, { keys, access, podsOf, pools });
  });
}

/** The fetched keys of an issuer of tokens for operators, with the same bounds as those of issuers for workloads. */
export function operatorKeys(issuer: string, url: string, platform: ClusterPlatform): IssuerKeys {
  const { pools = withoutReload } = platform;
  return pools.keys.of(["operators", issuer, url], () => {
    const fetching = keyFetching(platform, maximumWaitingOperators);
    return IssuerKeys.published(issuer, { kind: "jwks-uri", url }, fetching);
  });
}

/** @param maximumWaiting The most requests that wait for keys at once. */
function keyFetching(
  { log, fetching, shareWork }: ClusterPlatform,
  maximumWaiting: number,
): KeyFetching {
  const { fetchTimeoutMilliseconds } = fetching;
  return {
    fetchJson: DocumentFetch.create(fetching),
    fetchTimeoutMilliseconds,
    keyFetchFailed: keyFetchLog(log),
    shareWork,
    waitingCapacity: new Semaphore(maximumWaiting),
  };
}

interface IssuerContext {
  readonly keys: KeyFetching;
  readonly access: ClusterAccess;
  readonly podsOf: PodsOf | undefined;
  readonly pools: ReusedParts;
}

function tokenIssuer(
  table: IssuerTable & { readonly renewal_limit: number },
  { keys, access, podsOf, pools }: IssuerContext,
): TokenIssuer {
  const { cluster, kubernetes } = table;
  const openApi = kubernetes && apiOpener(cluster, kubernetes, access);
  const checks = { openApi, podsOf, pools };
  const subjects = subjectMappingOf(table);
  const issuer = {
    name: table.issuer,
    digest: IdentityProof.issuerDigest(table.issuer),
    renewalSeconds: table.renewal_limit,
    audiences: table.audiences,
    cluster: table.cluster,
    clusterAliases: table.cluster_aliases,
    keys: issuerKeys(table, keys, pools),
  };
  if (subjects) return { ...issuer, ...subjectRights(table, subjects) };
  return {
    ...issuer,
    ...issuerRights(table),
    review: reviewOf(table, checks),
    requireNode: nodeAuthorizer(table, checks),
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
  const location = jwks_uri
    ? ({ kind: "jwks-uri", url: jwks_uri } as const)
    : ({ kind: "discovery", issuer } as const);
  return keys.of([issuer, location], () => IssuerKeys.published(issuer, location, fetching));
}

function keyFetchLog({ operation }: EventLog): KeyFetchFailed {
  return (issuer, error) =>
    operation({
      event: "issuer-keys-unreachable",
      level: "warning",
      issuer,
      detail: error.message,
    });
}

function clusterLog({ operation }: EventLog): ReachableCluster["failed"] {
  return (cluster, error) => {
    const event = ClusterApi.isBusy(error) ? "cluster-busy" : "cluster-unreachable";
    operation({ event, level: "warning", cluster, detail: error.message });
  };
}

/** The means to ask the API server of an issuer's cluster. */
export interface CheckContext {
  /** Absent where the issuer has no API server. */
  readonly openApi: OpenApi | undefined;
  /** Absent on platforms that look up each pod. */
  readonly podsOf: PodsOf | undefined;
  readonly pools: ReusedParts;
}

/**
 * Decides which workloads the node proxies of an issuer may name: those whose pods are on the node, or, without an API
 * server or with `node_checks = "claims"`, those in `node_reach`.
 */
export function nodeAuthorizer(
  table: IssuerTable,
  { openApi, podsOf = (_, lookup) => lookup, pools }: CheckContext,
): NodeAuthorizer {
  const { node_checks, node_reach, trusted_node_accounts: nodes } = table;
  if (openApi && node_checks !== "claims") {
    const pods = pools.pods.of([...placeOf(table), nodes.length > 0], (ending) =>
      podsOf(table, Pods.create(openApi()), ending),
    );
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
