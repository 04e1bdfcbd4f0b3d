import { certificateFirst } from "../authn/certificate-first.ts";
import { createCertificateAuthenticator } from "../authn/client-certificate.ts";
import { believingGateways } from "../authn/forwarded-certificate.ts";
import {
  type IssuerKeys,
  type KeyFetchFailed,
  pinnedKeys,
  publishedKeys,
} from "../authn/issuer-keys.ts";
import { fetchJson } from "../authn/json-fetch.ts";
import type { ClusterUnreachable, KubernetesApi } from "../authn/kubernetes-api.ts";
import { createTokenAuthenticator } from "../authn/token-authenticator.ts";
import { createTokenReview } from "../authn/token-review.ts";
import { type NodeAuthorizer, nameAllowList, type TrustedIssuer } from "../authn/trusted-issuer.ts";
import type { EventLog } from "../ca/audit-event.ts";
import { type Authorities, createAuthorities, longestRefreshSeconds } from "../ca/authorities.ts";
import { createIdentityPolicy } from "../ca/identity-policy.ts";
import type { Mint } from "../ca/mint.ts";
import { createClaimedReach, createPodAuthorizer } from "../ca/node-authorizer.ts";
import { createPodLookup } from "../ca/pod-lookup.ts";
import { createServingPolicy } from "../ca/serving-policy.ts";
import { type NamedSigner, uniteBundles } from "../ca/signers.ts";
import type { AuthorityStore } from "../custody/authority-store.ts";
import { importKek, type KekRing } from "../custody/kek.ts";
import type { ServiceAccount } from "../pki/spiffe-id.ts";
import type { CertificateAuthority } from "../transport/certificate-authority.ts";
import { type ClusterAccess, type ClusterFetch, clusterApi, noApi } from "./cluster-access.ts";
import { type PodsOf, type WatchPods, watchedPods } from "./cluster-pods.ts";
import type { Configuration } from "./configuration.ts";
import type { IssuerTable } from "./issuer-table.ts";
import { mayUseSigner } from "./signer-table.ts";

/** What a platform has to bring. */
export interface Platform {
  readonly store: AuthorityStore;
  /** Where the records of a named signer rest: apart from all others. Every one that is configured has one. */
  readonly signerStore?: (signer: string) => AuthorityStore;
  readonly log: EventLog;
  readonly clock: () => Date;
  /** Looks at the store are never further apart: where one costs little, that may be seldom enough. */
  readonly longestRefreshSeconds?: number;
  /** Absent where nobody authenticates. */
  readonly clusterFetch?: ClusterFetch;
  /** Absent where pods are looked up one by one. */
  readonly watchPods?: WatchPods;
}

/** A configured CA: what answers requests, and what the cron needs. */
export interface Composition {
  readonly certificateAuthority: CertificateAuthority;
  readonly mint: Mint;
  /** Those of the named signers, by name. */
  readonly signerMints: ReadonlyMap<string, Mint>;
}

/** SPIFFE Trust Domain and Bundle §4.1.2: often enough that a new root is known long before it signs. */
const longestRefreshHintSeconds = 300;

/** As often as the store is looked at, within reason: a look that finds nothing takes microseconds. */
const shortestLookSeconds = 0.25;
const longestLookSeconds = 5;

/**
 * Builds the CA of a configuration on a platform: the one place where the layers meet.
 *
 * @throws ConfigurationError for access to a cluster that this platform cannot have.
 */
export async function compose(
  configuration: Configuration,
  platform: Platform,
): Promise<Composition> {
  const { log, clock, clusterFetch: fetch, watchPods } = platform;
  const { trustDomain, leafLifetimes, phaseLengths } = configuration;
  const { mint, signerMints } = await createMints(configuration, platform);
  const { clusterCredentials: credentials } = configuration;
  const access = fetch && { fetch, credentials, unreachable: unreachableLog(log) };
  const issuers = configuration.issuers.map((table) =>
    trustedIssuer(table, log, access, access && watchPods && watchedPods(access, watchPods)),
  );
  const { propagationSeconds } = phaseLengths;
  const refreshSeconds = Math.min(
    platform.longestRefreshSeconds ?? longestRefreshSeconds,
    // A part of it, so that a look may take its time while what was loaded still serves.
    propagationSeconds / 4,
  );
  const freshness = { refreshSeconds, surviveOutageSeconds: propagationSeconds };
  const open = (each: Mint): Authorities => createAuthorities({ ...each, ...freshness });
  const own = open(mint);
  const named = new Map([...signerMints].map(([name, each]) => [name, open(each)]));
  const withBundleOfAll = (one: Authorities): Authorities =>
    uniteBundles(
      one,
      [own, ...named.values()].filter((other) => other !== one),
    );
  const certificateAuthority: CertificateAuthority = {
    authenticate: believingGateways(
      trustDomain,
      issuers,
      certificateFirst(
        createCertificateAuthenticator(trustDomain),
        createTokenAuthenticator(trustDomain, issuers),
      ),
    ),
    issuance: {
      authorities: withBundleOfAll(own),
      identityPolicy: createIdentityPolicy(trustDomain, issuers),
      servingPolicy: createServingPolicy(issuers),
      signers: new Map(
        configuration.signers.flatMap((table): [string, NamedSigner][] => {
          const authorities = named.get(table.name);
          if (!authorities) return [];
          const mayUse = mayUseSigner(table);
          return [[table.name, { authorities: withBundleOfAll(authorities), mayUse }]];
        }),
      ),
      leafLifetimes,
    },
    log,
    clock,
    refreshHintSeconds: longestRefreshHintSeconds,
    bundleMaximumAgeSeconds: Math.min(60, propagationSeconds),
    bundleWaiting: {
      longestSeconds: configuration.bundleWaitSeconds,
      lookSeconds: Math.min(longestLookSeconds, Math.max(shortestLookSeconds, refreshSeconds)),
    },
  };
  return { certificateAuthority, mint, signerMints };
}

async function createMints(
  configuration: Configuration,
  { store, signerStore, log }: Platform,
): Promise<Pick<Composition, "mint" | "signerMints">> {
  const { trustDomain, authorityKey, phaseLengths, inceptionDate } = configuration;
  const keks = await openKeks(configuration);
  const mint = { store, keks, trustDomain, authorityKey, phaseLengths, inceptionDate, log };
  const signerMints = new Map<string, Mint>();
  for (const { name, authority_key, inception_date } of configuration.signers) {
    if (!signerStore) break;
    signerMints.set(name, {
      ...mint,
      store: signerStore(name),
      keks: await openKeks(configuration, name),
      authorityKey: authority_key,
      inceptionDate: inception_date,
      log: logOf(name, log),
      joinsMesh: true,
    });
  }
  return { mint, signerMints };
}

/** What happens to a signer's authorities says whose they are. */
function logOf(signer: string, log: EventLog): EventLog {
  return { ...log, operation: (event) => log.operation({ ...event, signer }) };
}

async function openKeks({ keks }: Configuration, signer?: string): Promise<KekRing> {
  const imported = keks.map(({ id, octets }) => importKek(id, octets, signer));
  const [newest, ...older] = await Promise.all(imported);
  if (!newest) throw new Error("a configuration without a KEK");
  return [newest, ...older];
}

function trustedIssuer(
  table: IssuerTable,
  log: EventLog,
  access: ClusterAccess | undefined,
  podsOf: PodsOf | undefined,
): TrustedIssuer {
  const api = apiOf(table, access);
  const mayUse = nameAllowList(table.namespaces);
  const nodeAccounts = new Set(table.trusted_node_accounts.map(accountName));
  const gateways = new Map(
    table.gateways.map(({ account, dns_names }) => [accountName(account), dns_names]),
  );
  return {
    issuer: table.issuer,
    audiences: table.audiences,
    cluster: table.cluster,
    clusterAliases: table.cluster_aliases,
    mayVouchFor: ({ namespace }) => mayUse(namespace),
    isNodeAccount: (account) => nodeAccounts.has(accountName(account)),
    gatewayNames: (account) => gateways.get(accountName(account)),
    keys: issuerKeys(table, keyFetchLog(log)),
    review: reviewOf(table, api),
    requireNode: nodeAuthorizer(table, api, podsOf),
  };
}

function nodeAuthorizer(
  table: IssuerTable,
  api: KubernetesApi | undefined,
  podsOf: PodsOf = (_, lookup) => lookup,
): NodeAuthorizer {
  const { cluster, node_checks, node_reach } = table;
  if (api && node_checks !== "claims") {
    return createPodAuthorizer(podsOf(table, createPodLookup(cluster, api)));
  }
  const reaches = node_reach.map(({ nodes, namespaces }) => ({
    isNode: nameAllowList(nodes),
    isNamespace: nameAllowList(namespaces),
  }));
  return createClaimedReach(reaches);
}

function apiOf(
  { cluster, kubernetes }: IssuerTable,
  access: ClusterAccess | undefined,
): KubernetesApi | undefined {
  if (!kubernetes) return undefined;
  return access ? clusterApi(cluster, kubernetes, access) : noApi(cluster);
}

function reviewOf(
  { cluster, audiences, kubernetes }: IssuerTable,
  api: KubernetesApi | undefined,
): TrustedIssuer["review"] {
  if (!kubernetes || !api) return undefined;
  return { order: kubernetes.review, ask: createTokenReview(cluster, audiences, api) };
}

const accountName = ({ namespace, name }: ServiceAccount): string => `${namespace}/${name}`;

function issuerKeys({ issuer, jwks, jwks_uri }: IssuerTable, failed: KeyFetchFailed): IssuerKeys {
  if (jwks) return pinnedKeys(jwks);
  const location = jwks_uri
    ? ({ kind: "jwks-uri", url: jwks_uri } as const)
    : ({ kind: "discovery", issuer } as const);
  return publishedKeys(issuer, location, fetchJson, failed);
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

function unreachableLog({ operation }: EventLog): ClusterUnreachable {
  return (cluster, error) =>
    operation({ event: "cluster-unreachable", level: "warning", cluster, detail: error.message });
}
