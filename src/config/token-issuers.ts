import {
  type IssuerKeys,
  type KeyFetchFailed,
  type KeyFetching,
  pinnedKeys,
  publishedKeys,
} from "../authn/issuer-keys.ts";
import type { NodeAuthorizer, TokenIssuer } from "../authn/token-issuer.ts";
import { createTokenReview, type TokenReview } from "../authn/token-review.ts";
import type { EventLog } from "../ca/issuance/audit-event.ts";
import {
  createClaimedReach,
  createPodAuthorizer,
  type NodeReach,
} from "../ca/issuance/identity-policy.ts";
import type { CrlSource } from "../ca/revocation/published-crls.ts";
import { Lasting } from "../foundation/caches.ts";
import { createDocumentFetch, type Fetching } from "../foundation/fetch.ts";
import { nameAllowList } from "../foundation/globs.ts";
import { Semaphore, type WorkSharing } from "../foundation/shared-work.ts";
import { type ClusterFailed, isBusy } from "../kubernetes/cluster-api.ts";
import { createPodLookup, type Pods, type WatchPods } from "../kubernetes/pods.ts";
import type { CryptoProvider } from "../pki/crypto-provider.ts";
import { issuerDigest } from "../pki/x509/leaf/identity-proof.ts";
import {
  apiOpener,
  type ClusterAccess,
  type OpenApi,
  type PodsOf,
  watchedPods,
} from "./cluster-access.ts";
import type { Configuration } from "./configuration.ts";
import type { IssuerTable } from "./issuer-table.ts";
import { issuerRights } from "./rights.ts";

/** The means of a platform to reach issuers and clusters. */
export interface ClusterPlatform {
  readonly log: EventLog;
  readonly cryptoProvider: CryptoProvider;
  readonly fetching: Fetching;
  /** Absent on platforms that look up each pod. */
  readonly watchPods?: WatchPods;
  readonly shareWork: WorkSharing;
  /** Present where the configuration may change while a program runs. */
  readonly lasting?: LastingParts;
}

/** The most requests that wait for the keys of any issuer at once. */
const maximumWaiting = 2000;
const maximumWaitingOperators = 100;

/** @throws ConfigurationError for access to a cluster that this platform cannot have. */
export function tokenIssuers(
  { issuers, renewalSeconds, clusterCredentials: credentials }: Configuration,
  platform: ClusterPlatform,
): readonly TokenIssuer[] {
  const { log, fetching, watchPods, lasting = lastingParts() } = platform;
  const access = { ...fetching, credentials, failed: clusterLog(log) };
  const podsOf = watchPods && watchedPods(access, watchPods);
  const keys = keyFetching(platform, maximumWaiting);
  return issuers.map((table) => {
    const { renewal_limit = renewalSeconds } = table;
    return tokenIssuer({ ...table, renewal_limit }, { keys, access, podsOf, lasting });
  });
}

/** The keys of an issuer of tokens for operators, bounded as those of the issuers for workloads are. */
export function operatorKeys(issuer: string, url: string, platform: ClusterPlatform): IssuerKeys {
  const { lasting = lastingParts() } = platform;
  return lasting.keys.of(["operators", issuer, url], () => {
    const fetching = keyFetching(platform, maximumWaitingOperators);
    return publishedKeys(issuer, { kind: "jwks-uri", url }, fetching);
  });
}

/** @param maximumWaiting The most requests that wait for keys at once. */
function keyFetching(
  { log, cryptoProvider, fetching, shareWork }: ClusterPlatform,
  maximumWaiting: number,
): KeyFetching {
  const { fetchTimeoutMilliseconds } = fetching;
  return {
    fetchJson: createDocumentFetch(fetching),
    fetchTimeoutMilliseconds,
    keyFetchFailed: keyFetchLog(log),
    cryptoProvider,
    shareWork,
    waitingRoom: new Semaphore(maximumWaiting),
  };
}

interface IssuerMeans {
  readonly keys: KeyFetching;
  readonly access: ClusterAccess;
  readonly podsOf: PodsOf | undefined;
  readonly lasting: LastingParts;
}

function tokenIssuer(
  table: IssuerTable & { readonly renewal_limit: number },
  { keys, access, podsOf, lasting }: IssuerMeans,
): TokenIssuer {
  const { cluster, kubernetes } = table;
  const openApi = kubernetes && apiOpener(cluster, kubernetes, access);
  const checks = { openApi, podsOf, lasting };
  return {
    name: table.issuer,
    digest: issuerDigest(table.issuer),
    renewalSeconds: table.renewal_limit,
    audiences: table.audiences,
    cluster: table.cluster,
    clusterAliases: table.cluster_aliases,
    ...issuerRights(table),
    keys: issuerKeys(table, keys, lasting),
    review: reviewOf(table, checks),
    requireNode: nodeAuthorizer(table, checks),
  };
}

function issuerKeys(
  { issuer, jwks, jwks_uri }: IssuerTable,
  fetching: KeyFetching,
  { keys }: LastingParts,
): IssuerKeys {
  if (jwks) return pinnedKeys(jwks, fetching.cryptoProvider);
  const location = jwks_uri
    ? ({ kind: "jwks-uri", url: jwks_uri } as const)
    : ({ kind: "discovery", issuer } as const);
  return keys.of([issuer, location], () => publishedKeys(issuer, location, fetching));
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

function clusterLog({ operation }: EventLog): ClusterFailed {
  return (cluster, error) => {
    const event = isBusy(error) ? "cluster-busy" : "cluster-unreachable";
    operation({ event, level: "warning", cluster, detail: error.message });
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
