import {
  type IssuerKeys,
  type KeyFetchFailed,
  type KeyFetching,
  pinnedKeys,
  publishedKeys,
} from "../authn/issuer-keys.ts";
import type { TokenIssuer } from "../authn/token-issuer.ts";
import type { EventLog } from "../ca/issuance/audit-event.ts";
import {
  createDocumentFetch,
  FetchError,
  type Fetching,
  type JsonFetch,
} from "../foundation/fetch.ts";
import { Semaphore, type WorkSharing } from "../foundation/shared-work.ts";
import { type ClusterFailed, isBusy } from "../kubernetes/cluster-api.ts";
import type { WatchPods } from "../kubernetes/pods.ts";
import type { CryptoProvider } from "../pki/crypto-provider.ts";
import { issuerDigest } from "../pki/x509/leaf/identity-proof.ts";
import {
  apiOpener,
  type ClusterAccess,
  type LastingParts,
  lastingParts,
  noApi,
  nodeAuthorizer,
  type OpenApi,
  type PodsOf,
  reviewOf,
  watchedPods,
} from "./cluster-access.ts";
import type { Configuration } from "./configuration.ts";
import type { IssuerTable } from "./issuer-table.ts";
import { issuerRights } from "./rights.ts";

/** The means of a platform to reach issuers and clusters. */
export interface ClusterPlatform {
  readonly log: EventLog;
  readonly cryptoProvider: CryptoProvider;
  /** Absent in programs that authenticate nobody. */
  readonly fetching?: Fetching;
  /** Absent on platforms that look up each pod. */
  readonly watchPods?: WatchPods;
  readonly shareWork: WorkSharing;
  /** Present where the configuration may change while a program runs. */
  readonly lasting?: LastingParts;
}

/** The most requests that wait for the keys of any issuer at once. */
const maximumWaiting = 4000;
const maximumWaitingOperators = 100;

type KeyFetch = Pick<KeyFetching, "fetchJson" | "fetchTimeoutMilliseconds">;

/** @throws ConfigurationError for access to a cluster that this platform cannot have. */
export function tokenIssuers(
  { issuers, renewalSeconds, clusterCredentials: credentials }: Configuration,
  platform: ClusterPlatform,
): readonly TokenIssuer[] {
  const { log, fetching, watchPods, lasting = lastingParts() } = platform;
  const access = fetching && { ...fetching, credentials, failed: clusterLog(log) };
  const podsOf = access && watchPods && watchedPods(access, watchPods);
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
  return {
    ...keyFetchOf(fetching),
    keyFetchFailed: keyFetchLog(log),
    cryptoProvider,
    shareWork,
    waitingRoom: new Semaphore(maximumWaiting),
  };
}

function keyFetchOf(fetching: Fetching | undefined): KeyFetch {
  if (!fetching) return { fetchJson: { anywhere: noFetch, public: noFetch } };
  const { fetchTimeoutMilliseconds } = fetching;
  return { fetchJson: createDocumentFetch(fetching), fetchTimeoutMilliseconds };
}

/** The means of one issuer. */
interface IssuerMeans {
  readonly keys: KeyFetching;
  readonly access: ClusterAccess | undefined;
  readonly podsOf: PodsOf | undefined;
  readonly lasting: LastingParts;
}

function tokenIssuer(
  table: IssuerTable & { readonly renewal_limit: number },
  { keys, access, podsOf, lasting }: IssuerMeans,
): TokenIssuer {
  const checks = { openApi: apiOf(table, access), podsOf, lasting };
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

function apiOf(
  { cluster, kubernetes }: IssuerTable,
  access: ClusterAccess | undefined,
): OpenApi | undefined {
  if (!kubernetes) return undefined;
  return access ? apiOpener(cluster, kubernetes, access) : () => noApi(cluster);
}

/** A program that authenticates nobody needs no keys of issuers. */
const noFetch: JsonFetch = async () => {
  throw new FetchError("cannot be reached from here");
};

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
