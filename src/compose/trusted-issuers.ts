import {
  type IssuerKeys,
  type KeyFetchFailed,
  type KeyFetching,
  pinnedKeys,
  publishedKeys,
} from "../authn/token/issuer-keys.ts";
import type { ClusterSigner, TrustedIssuer } from "../authn/trusted-issuer.ts";
import type { EventLog } from "../ca/issuance/audit-event.ts";
import type { Configuration } from "../config/configuration.ts";
import type { ClusterSignerTable, IntermediateTable, IssuerTable } from "../config/issuer-table.ts";
import {
  createDocumentFetch,
  FetchError,
  type Fetching,
  type JsonFetch,
} from "../foundation/http/json-fetch.ts";
import { nameAllowList } from "../foundation/text/globs.ts";
import { Semaphore } from "../foundation/work/semaphore.ts";
import type { WorkSharing } from "../foundation/work/shared-work.ts";
import { type ClusterFailed, isBusy } from "../kubernetes/cluster-api.ts";
import type { WatchPods } from "../kubernetes/pods.ts";
import type { CryptoProvider } from "../pki/crypto-provider.ts";
import type { ServiceAccount } from "../pki/spiffe-id.ts";
import type { IntermediateRights } from "../pki/x509/intermediate.ts";
import { issuerDigest } from "../pki/x509/leaf/identity-proof.ts";
import { type PodsOf, watchedPods } from "./cluster-pods.ts";
import { apiOpener, type ClusterAccess, noApi, type OpenApi } from "./cluster-reach.ts";
import { nodeAuthorizer, reviewOf } from "./issuer-checks.ts";
import { type LastingParts, lastingParts } from "./lasting-parts.ts";

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

type KeyFetch = Pick<KeyFetching, "fetchJson" | "fetchTimeoutMilliseconds">;

/** @throws ConfigurationError for access to a cluster that this platform cannot have. */
export function trustedIssuers(
  { issuers, renewalSeconds, clusterCredentials: credentials }: Configuration,
  {
    log,
    cryptoProvider,
    fetching,
    watchPods,
    shareWork,
    lasting = lastingParts(),
  }: ClusterPlatform,
): readonly TrustedIssuer[] {
  const access = fetching && { ...fetching, credentials, failed: clusterLog(log) };
  const podsOf = access && watchPods && watchedPods(access, watchPods);
  const keys = {
    ...keyFetchOf(fetching),
    keyFetchFailed: keyFetchLog(log),
    cryptoProvider,
    shareWork,
    waitingRoom: new Semaphore(maximumWaiting),
  };
  return issuers.map((table) => {
    const { renewal_limit = renewalSeconds } = table;
    return trustedIssuer({ ...table, renewal_limit }, { keys, access, podsOf, lasting });
  });
}

/** The keys of an issuer of tokens for operators, bounded as those of the issuers for workloads are. */
export function operatorKeys(
  issuer: string,
  url: string,
  { log, cryptoProvider, fetching, shareWork, lasting = lastingParts() }: ClusterPlatform,
): IssuerKeys {
  return lasting.keys.of(["operators", issuer, url], () =>
    publishedKeys(
      issuer,
      { kind: "jwks-uri", url },
      {
        ...keyFetchOf(fetching),
        keyFetchFailed: keyFetchLog(log),
        cryptoProvider,
        shareWork,
        waitingRoom: new Semaphore(maximumWaitingOperators),
      },
    ),
  );
}

const maximumWaitingOperators = 100;

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

function trustedIssuer(
  table: IssuerTable & { readonly renewal_limit: number },
  { keys, access, podsOf, lasting }: IssuerMeans,
): TrustedIssuer {
  const checks = { openApi: apiOf(table, access), podsOf, lasting };
  const mayUse = nameAllowList(table.namespaces);
  const nodeAccounts = new Set(table.trusted_node_accounts.map(accountName));
  const signers = new Map(
    table.cluster_signers.map((each) => [accountName(each.account), clusterSigner(each)]),
  );
  const intermediates = new Map(
    table.intermediates.map((each) => [accountName(each.account), intermediateRights(each)]),
  );
  const gateways = new Map(table.gateways.map((each) => [accountName(each.account), each]));
  return {
    name: table.issuer,
    digest: issuerDigest(table.issuer),
    renewalSeconds: table.renewal_limit,
    audiences: table.audiences,
    cluster: table.cluster,
    clusterAliases: table.cluster_aliases,
    mayVouchFor: ({ namespace }) => mayUse(namespace),
    isNodeAccount: (account) => nodeAccounts.has(accountName(account)),
    gatewayNames:
      gateways.size > 0 ? (account) => gateways.get(accountName(account))?.dns_names : undefined,
    mayForwardIdentities: (account) =>
      gateways.get(accountName(account))?.forwards === "identities",
    clusterSigner: signers.size > 0 ? (account) => signers.get(accountName(account)) : undefined,
    intermediateRights:
      intermediates.size > 0 ? (account) => intermediates.get(accountName(account)) : undefined,
    keys: issuerKeys(table, keys, lasting),
    review: reviewOf(table, checks),
    requireNode: nodeAuthorizer(table, checks),
  };
}

function clusterSigner({ namespaces, dns_names }: ClusterSignerTable): ClusterSigner {
  const isNamespace = nameAllowList(namespaces);
  return {
    maySignFor: ({ namespace }) => isNamespace(namespace),
    mayName: nameAllowList(dns_names),
  };
}

function intermediateRights({
  trust_domain: trustDomain,
  path_length: pathLength,
  name_constraints: isConstrained,
}: IntermediateTable): IntermediateRights {
  return { trustDomain, pathLength, isConstrained };
}

function apiOf(
  { cluster, kubernetes }: IssuerTable,
  access: ClusterAccess | undefined,
): OpenApi | undefined {
  if (!kubernetes) return undefined;
  return access ? apiOpener(cluster, kubernetes, access) : () => noApi(cluster);
}

const accountName = ({ namespace, name }: ServiceAccount): string => `${namespace}/${name}`;

/** A program that authenticates nobody needs no keys of issuers. */
const noFetch: JsonFetch = async () => {
  throw new FetchError("cannot be reached from here");
};

function issuerKeys(
  { issuer, jwks, jwks_uri }: IssuerTable,
  fetching: KeyFetching,
  { keys }: LastingParts,
): IssuerKeys {
  if (jwks) return pinnedKeys(jwks.usable, fetching.cryptoProvider);
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
