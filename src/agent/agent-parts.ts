import type { OperationLog } from "../foundation/event-log.ts";
import type { AgentConfiguration } from "./configuration/configuration.ts";
import {
  type CertificateCache,
  noCache,
  openCertificateCache,
} from "./identity/certificate-cache.ts";
import { parseCertificates } from "./identity/certificate-text.ts";
import { Identities } from "./identity/identities.ts";
import type { RefreshingIdentity } from "./identity/refreshing-identity.ts";
import { CaChannel } from "./issuance/ca-channel.ts";
import { createCertificateClient } from "./issuance/certificate-client.ts";
import { Semaphore } from "./issuance/semaphore.ts";
import type { FileResource } from "./secrets/file-resource.ts";
import { defaultResource } from "./secrets/identity-secrets.ts";
import { findMountedFiles } from "./secrets/mounted-files.ts";
import { AgentMetrics } from "./status/metrics.ts";
import { FederatedBundles } from "./trust/federated-bundles.ts";
import { TrustRoots } from "./trust/trust-roots.ts";

/** What an agent gets from whoever starts it. */
export interface AgentPorts {
  readonly clock: () => Date;
  /** At least 0 and less than 1. */
  readonly random: () => number;
  readonly log: OperationLog;
}

/** The parts that everything else of an agent is made from. */
export interface AgentParts extends AgentPorts {
  readonly configuration: AgentConfiguration;
  readonly metrics: AgentMetrics;
  readonly trust: TrustRoots;
  readonly federation: FederatedBundles;
  readonly channel: CaChannel;
  readonly cache: CertificateCache;
  readonly identities: Identities;
  /** Resources that a platform has mounted as files. */
  readonly mounted: ReadonlyMap<string, FileResource>;
  /** In sidecar mode, unless the certificate comes from files. */
  readonly own: RefreshingIdentity | undefined;
}

/** Requests to the CA at once: a node proxy that starts must not take the CA for itself. */
const maximumRequests = 8;

/** @throws ConfigurationError for a cache that cannot be opened. */
export async function assembleParts(
  configuration: AgentConfiguration,
  ports: AgentPorts,
  started: AsyncDisposableStack,
): Promise<AgentParts> {
  const { subject, renewal } = configuration;
  const metrics = new AgentMetrics();
  const trust = new TrustRoots();
  const channel = new CaChannel(configuration.ca, ports.clock);
  started.defer(() => channel.reset());
  const cache = configuration.cache
    ? await openCertificateCache(configuration.cache, ports)
    : noCache;
  const semaphore = new Semaphore(maximumRequests);
  const client = createCertificateClient(configuration.request, { ...ports, channel, metrics });
  const identities = new Identities({
    ...ports,
    trust,
    policy: renewal,
    issue: (spiffeId, signal) => semaphore.run(() => client(spiffeId, signal)),
    load: cache.load,
    store: cache.store,
  });
  started.defer(() => identities.end());
  const cachedRoots = parseCertificates((await cache.loadRoots()) ?? "");
  if (cachedRoots.length > 0) trust.recall("", cachedRoots);
  trust.changes.add(() => void cache.storeRoots(trust.pem));
  const mounted = await findMountedFiles(configuration.output?.folder);
  const isKept = !configuration.isFileMounted && !mounted.has(defaultResource);
  const own = subject.mode === "sidecar" && isKept ? identities.add(subject.spiffeId) : undefined;
  const federation = new FederatedBundles();
  return {
    ...ports,
    configuration,
    metrics,
    trust,
    federation,
    channel,
    cache,
    identities,
    own,
    mounted,
  };
}
