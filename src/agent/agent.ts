import { SecretDiscoveryService } from "../gen/envoy/service/secret/v3/sds_pb.ts";
import { type AgentStatus, reportIdentity } from "./agent-status.ts";
import { BundlePoll } from "./bundle-poll.ts";
import { CaChannel } from "./ca-channel.ts";
import { createCertificateClient } from "./certificate-client.ts";
import type { AgentConfiguration } from "./configuration.ts";
import type { Clock, EventLog } from "./event-log.ts";
import {
  defaultResource,
  identitySecrets,
  rootResource,
  rootSecrets,
  secretsByName,
} from "./held-secrets.ts";
import { Identities } from "./identities.ts";
import { AgentMetrics } from "./metrics.ts";
import { serveOnSocket } from "./rpc-socket.ts";
import { createSecretDiscovery } from "./sds/secret-discovery.ts";
import { serveStatus } from "./status-server.ts";
import { TrustRoots } from "./trust-roots.ts";
import { Turnstile } from "./turnstile.ts";

/** What an agent gets from whoever starts it. */
export interface AgentPorts {
  readonly clock: Clock;
  /** At least 0 and less than 1. */
  readonly random: () => number;
  readonly log: EventLog;
}

/** A running agent. */
export interface Agent {
  status(): AgentStatus;
  /** Ends everything that it started. */
  close(): Promise<void>;
}

/** Requests to the CA at once: a node proxy that starts must not take the CA for itself. */
const maximumRequests = 8;

export async function startAgent(
  configuration: AgentConfiguration,
  ports: AgentPorts,
): Promise<Agent> {
  const { subject } = configuration;
  const metrics = new AgentMetrics();
  const trust = new TrustRoots();
  const channel = new CaChannel(configuration.ca, ports.clock);
  const turnstile = new Turnstile(maximumRequests);
  const client = createCertificateClient(configuration.request, { ...ports, channel, metrics });
  const identities = new Identities({
    ...ports,
    trust,
    policy: configuration.renewal,
    issue: (spiffeId, signal) => turnstile.pass(() => client(spiffeId, signal)),
    recall: async () => undefined,
    remember: async () => undefined,
  });
  const own = subject.mode === "sidecar" ? identities.keep(subject.spiffeId) : undefined;
  const held = identitySecrets(
    (name) => (name === defaultResource ? own : identities.find(name)),
    configuration.isPkcs8,
  );
  const roots = rootSecrets(trust, async () => own?.awaitSvid(), configuration.crlFile);
  const source = secretsByName((name) => (name === rootResource ? roots : held));
  const sds = await serveOnSocket(configuration.sdsSocket, 0o666, (router) => {
    router.service(SecretDiscoveryService, createSecretDiscovery({ ...ports, source }));
  });
  const ending = new AbortController();
  const poll = new BundlePoll({
    ...ports,
    url: configuration.bundleUrl ?? "",
    tlsOptions: () => channel.tlsOptions(),
    onBundle: (bundle) => trust.learnBundle(bundle),
    onConfirmed: () => trust.confirmBundle(),
  });
  const polling = poll.run(ending.signal);
  const status = (): AgentStatus => ({
    isReady: true,
    reasons: [],
    identities: identities.all().map((identity) => reportIdentity(identity.status, ports.clock())),
    roots: [],
    bundle: { sequence: trust.sequence, confirmedAt: undefined, lastError: poll.lastError },
  });
  const server = await serveStatus(configuration.statusAddress, {
    status,
    metrics: () => metrics.text(),
  });
  return {
    status,
    async close() {
      ending.abort();
      server.close();
      await Promise.all([sds.close(), identities.end(), polling]);
    },
  };
}
