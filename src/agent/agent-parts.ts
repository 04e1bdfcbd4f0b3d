import { sparing } from "../foundation/sparing-log.ts";
import type { Lifetime } from "../program/lifetime.ts";
import type { ProgramContext } from "../program/program.ts";
import type { AgentConfiguration } from "./configuration.ts";
import type { ProxyControl } from "./envoy/envoy-process.ts";
import { CaChannel, type ConnectionTrust } from "./identity/ca-channel.ts";
import { CaClient, issueThrough } from "./identity/ca-client.ts";
import type { CertificateCache } from "./identity/certificate-cache.ts";
import { Identities } from "./identity/identities.ts";
import type { JwtSvids } from "./identity/jwt-svids.ts";
import type { RefreshingIdentity } from "./identity/refreshing-identity.ts";
import { MountedFiles } from "./secrets/mounted-files.ts";
import { defaultResource } from "./secrets/secret-source.ts";
import { AgentMetrics } from "./status/metrics.ts";
import { FederatedBundles, JwtBundles } from "./trust/bundles.ts";
import { Revocation } from "./trust/revocation.ts";
import { TrustRoots } from "./trust/trust-roots.ts";

/** What an agent takes from its process: clock, random numbers, log and proxy. */
export interface AgentPorts
  extends Pick<ProgramContext, "clock" | "log" | "logOutput" | "telemetry"> {
  /** Returns a number from 0 to below 1. */
  readonly random: () => number;
  /** The proxy that runs beside the agent, if there is one. */
  readonly proxy?: ProxyControl;
}

/** The parts that one agent is made of, which its sockets, files and status share. */
export interface AgentParts extends AgentPorts {
  readonly configuration: AgentConfiguration;
  readonly metrics: AgentMetrics;
  readonly trust: TrustRoots;
  readonly federation: FederatedBundles;
  readonly revocation: Revocation;
  /** Absent from an agent that hands out no tokens. */
  readonly jwtSvids: JwtSvids | undefined;
  readonly jwtBundles: JwtBundles;
  readonly channel: CaChannel;
  readonly known: ConnectionTrust;
  /** Absent from an agent that keeps nothing on disk. */
  readonly cache: CertificateCache | undefined;
  readonly identities: Identities;
  readonly mounted: MountedFiles;
  /** The identity of a sidecar; `undefined` in node mode, and if the certificate comes from files. */
  readonly own: RefreshingIdentity | undefined;
}

/**
 * Creates the parts, and starts to refresh a sidecar's identity. The function is long because each part needs earlier
 * ones, and the parts end in the reverse order.
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
  const metrics = new AgentMetrics(ports.logOutput);
  const trust = new TrustRoots(configuration.ca.address.baseUrl);
  const known: ConnectionTrust = {
    rootsFor: (file) => trust.forConnection(file),
    isWithdrawn: (leaf, others) =>
      trust.hasWithdrawn(leaf, others, ports.clock()) || revocation.names(leaf),
  };
  const channel = openChannel({ ...ports, configuration, known }, life);
  const { request } = configuration;
  const cache = await openCache(configuration, ports);
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
  const jwtSvids = await openTokens({ ...ports, configuration, known, jwtBundles }, life);
  return {
    ...ports,
    configuration,
    metrics,
    trust,
    federation,
    revocation,
    channel,
    known,
    cache,
    identities,
    own,
    mounted,
    jwtSvids,
    jwtBundles,
  };
}

function openChannel(
  { configuration, clock, known }: Pick<AgentParts, "configuration" | "clock" | "known">,
  life: Lifetime,
): CaChannel {
  const channel = new CaChannel(configuration.ca, clock, known);
  life.endsWith("the connection to the CA", () => channel.reset());
  return channel;
}

async function openCache(
  { cache: place, request }: AgentConfiguration,
  ports: AgentPorts,
): Promise<CertificateCache | undefined> {
  if (!place) return undefined;
  const { CertificateCache } = await import("./identity/certificate-cache.ts");
  return CertificateCache.open(place, ports, request.purpose);
}

/** Opens JWT-SVIDs on a connection of their own, because a failed call closes its connection with all calls on it. */
async function openTokens(
  parts: AgentPorts & Pick<AgentParts, "configuration" | "known" | "jwtBundles">,
  life: Lifetime,
): Promise<JwtSvids | undefined> {
  const { configuration, jwtBundles: bundles, clock } = parts;
  const { request, workloadApiSocket, jwtFiles } = configuration;
  if (workloadApiSocket === undefined && jwtFiles.length === 0) return undefined;
  const { JwtSvids } = await import("./identity/jwt-svids.ts");
  const ca = new CaClient(request, { ...parts, channel: openChannel(parts, life) });
  const { impersonates } = request;
  return new JwtSvids({ ca, bundles, impersonates, clock, log: sparing(parts.log, clock) });
}

/** Restores the roots and CRLs of an earlier run, and stores each change of them. */
async function followCache(
  { trust, revocation }: Pick<AgentParts, "trust" | "revocation">,
  cache: CertificateCache,
  life: Lifetime,
): Promise<void> {
  trust.recall((await cache.loadRoots()) ?? "");
  revocation.recall((await cache.loadCrls()) ?? []);
  trust.changes.add(() => void cache.storeRoots(trust.record));
  revocation.changes.add(() => void cache.storeCrls(revocation.all));
  // Waits for the last write: the next run must know every root that this one saw withdrawn.
  life.endsWith("the cache", () => cache.stored);
}
