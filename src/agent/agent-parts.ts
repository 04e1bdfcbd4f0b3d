import { type OperationLog, sparing } from "../foundation/events.ts";
import type { Lifetime } from "../program/lifetime.ts";
import type { AgentConfiguration } from "./configuration/configuration.ts";
import type { ProxyControl } from "./envoy/envoy-process.ts";
import { CaChannel } from "./identity/ca-channel.ts";
import { CaClient, issueThrough } from "./identity/ca-client.ts";
import { CertificateCache } from "./identity/certificate-cache.ts";
import { JwtSvids } from "./identity/jwt-svids.ts";
import { Identities, type RefreshingIdentity } from "./identity/refreshing-identity.ts";
import { MountedFiles } from "./secrets/mounted-files.ts";
import { defaultResource } from "./secrets/secret-source.ts";
import { AgentMetrics } from "./status/metrics.ts";
import { FederatedBundles, JwtBundles } from "./trust/bundles.ts";
import { Revocation } from "./trust/revocation.ts";
import { TrustRoots } from "./trust/trust-roots.ts";

export interface AgentPorts {
  readonly clock: () => Date;
  /** At least 0 and less than 1. */
  readonly random: () => number;
  readonly log: OperationLog;
  /** The proxy that runs beside the agent, if there is one. */
  readonly proxy?: ProxyControl;
}

export interface AgentParts extends AgentPorts {
  readonly configuration: AgentConfiguration;
  readonly metrics: AgentMetrics;
  readonly trust: TrustRoots;
  readonly federation: FederatedBundles;
  readonly revocation: Revocation;
  readonly jwtSvids: JwtSvids;
  readonly jwtBundles: JwtBundles;
  readonly channel: CaChannel;
  /** Absent from an agent that keeps nothing on disk. */
  readonly cache: CertificateCache | undefined;
  readonly identities: Identities;
  readonly mounted: MountedFiles;
  /** The identity of a sidecar. It is `undefined` in node mode, and if the certificate comes from files. */
  readonly own: RefreshingIdentity | undefined;
}

/**
 * Creates the parts, and starts to refresh a sidecar's identity. The function is long because each part needs some of
 * those before it, and ends in the reverse order.
 *
 * @param life Ends the parts.
 * @throws ConfigurationError for an unusable key of the cache.
 */
export async function assembleParts(
  configuration: AgentConfiguration,
  ports: AgentPorts,
  life: Lifetime,
): Promise<AgentParts> {
  const { subject, renewal } = configuration;
  const metrics = new AgentMetrics();
  const trust = new TrustRoots(configuration.ca.address.baseUrl);
  const open = () =>
    new CaChannel(configuration.ca, ports.clock, (file) => trust.forConnection(file));
  // Tokens have a connection of their own: a failed call closes its own, with all calls under way on it.
  const [channel, channelOfTokens] = [open(), open()];
  life.endsWith("the connections to the CA", () => {
    channel.reset();
    channelOfTokens.reset();
  });
  const { cache: place, request } = configuration;
  const cache = place && (await CertificateCache.open(place, ports, request.purpose));
  const ca = new CaClient(configuration.request, { ...ports, channel });
  const identities = new Identities({
    ...ports,
    trust,
    policy: renewal,
    issue: issueThrough(request, { ...ports, ca, metrics }),
    load: async (spiffeId) => cache?.load(spiffeId),
    store: async (svid) => cache?.store(svid),
  });
  life.endsWith("the identities", () => identities.end());
  const revocation = new Revocation({ ...ports, trust, identities, metrics });
  if (cache) await followCache({ trust, revocation }, cache, life);
  const mounted = new MountedFiles({
    ...ports,
    metrics,
    debounceMilliseconds: configuration.fileDebounceMilliseconds,
    outputFolder: configuration.output?.folder,
    isRequired: configuration.isFileMounted,
  });
  life.endsWith("the watch for mounted files", () => mounted.close());
  const isIssued = !configuration.isFileMounted && !mounted.find(defaultResource);
  const own = subject.mode !== "node" && isIssued ? identities.add(subject.spiffeId) : undefined;
  const federation = new FederatedBundles();
  const jwtBundles = new JwtBundles();
  const jwtSvids = new JwtSvids({
    ...ports,
    log: sparing(ports.log, ports.clock),
    ca: new CaClient(configuration.request, { ...ports, channel: channelOfTokens }),
    bundles: jwtBundles,
    impersonates: configuration.request.impersonates,
  });
  return {
    ...ports,
    configuration,
    metrics,
    trust,
    federation,
    revocation,
    channel,
    cache,
    identities,
    own,
    mounted,
    jwtSvids,
    jwtBundles,
  };
}

/** Restores the roots and CRLs of an earlier run, and stores each change of them. */
async function followCache(
  { trust, revocation }: Pick<AgentParts, "trust" | "revocation">,
  cache: CertificateCache,
  life: Lifetime,
): Promise<void> {
  trust.recall((await cache.loadRoots()) ?? "");
  revocation.recall((await cache.loadCrls()) ?? []);
  let writing: Promise<void> | undefined;
  trust.changes.add(() => {
    writing = cache.storeRoots(trust.record);
  });
  revocation.changes.add(() => {
    writing = cache.storeCrls(revocation.all);
  });
  // The next run must know of every root that this one saw withdrawn.
  life.endsWith("the cache", () => writing);
}
