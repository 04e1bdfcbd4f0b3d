import { SecretDiscoveryService } from "../gen/envoy/service/secret/v3/sds_pb.ts";
import { SpiffeWorkloadAPI } from "../gen/spiffe/workload_pb.ts";
import { ConfigurationError } from "./agent-fault.ts";
import { type AgentPorts, assembleParts } from "./agent-parts.ts";
import { agentSecrets } from "./agent-secrets.ts";
import { type AgentStatus, reportAgent } from "./agent-status.ts";
import { federatedBundlePolls, ownBundlePoll } from "./bundle-polls.ts";
import { CertificateOutput } from "./certificate-output.ts";
import type { AgentConfiguration } from "./configuration.ts";
import { Endings } from "./endings.ts";
import { sentence } from "./event-log.ts";
import type { Identities } from "./identities.ts";
import type { KeptIdentity } from "./kept-identity.ts";
import { startNodeMode } from "./node-mode/node-mode.ts";
import { serveOnSocket } from "./rpc-socket.ts";
import { createSecretDiscovery } from "./sds/secret-discovery.ts";
import { serveStatus } from "./status-server.ts";
import { createWorkloadApi } from "./workload-api/workload-api.ts";

/** A running agent. */
export interface Agent {
  status(): AgentStatus;
  /** Where its status is served: the port that it got, if it asked for any. */
  readonly statusUrl: string;
  /** Ends everything that it started. */
  close(): Promise<void>;
}

/** @throws ConfigurationError for what the operator can mend; nothing is left running then. */
export async function startAgent(
  configuration: AgentConfiguration,
  ports: AgentPorts,
): Promise<Agent> {
  const endings = new Endings();
  try {
    return await start(configuration, ports, endings);
  } catch (error) {
    await endings.end();
    throw error;
  }
}

async function start(
  configuration: AgentConfiguration,
  ports: AgentPorts,
  endings: Endings,
): Promise<Agent> {
  const parts = await assembleParts(configuration, ports, endings);
  const { trust, federation, metrics, identities, own } = parts;
  const ending = new AbortController();
  const poll = ownBundlePoll(parts);
  const polls = [...(poll ? [poll] : []), ...federatedBundlePolls(parts)];
  const polling = Promise.all(polls.map((each) => each.run(ending.signal)));
  endings.add(async () => {
    ending.abort();
    await polling;
  });
  const { subject, sdsSocket, workloadApiSocket, trustDomain, output } = configuration;
  if (subject.mode === "node") {
    const feed = await startNodeMode(subject, parts);
    endings.add(() => feed.close());
  }
  const source = agentSecrets(parts);
  // A node proxy's socket gives out every workload's key: only its own user may open it.
  const sds = await serveOnSocket({
    path: sdsSocket,
    mode: subject.mode === "node" ? 0o600 : 0o666,
    routes: (router) => {
      router.service(SecretDiscoveryService, createSecretDiscovery({ ...ports, source }));
    },
    log: ports.log,
  });
  endings.add(() => sds.close());
  if (own && workloadApiSocket !== undefined) {
    const view = { trustDomain, identity: own, trust, federation };
    const api = await serveOnSocket({
      path: workloadApiSocket,
      mode: 0o666,
      routes: (router) => {
        router.service(SpiffeWorkloadAPI, createWorkloadApi(view));
      },
      log: ports.log,
    });
    endings.add(() => api.close());
  }
  if (own && output) {
    const { isPkcs8 } = configuration;
    const written = new CertificateOutput({ ...parts, settings: output, identity: own, isPkcs8 });
    endings.add(() => written.close());
  }
  const status = (): AgentStatus => reportAgent({ identities, trust, poll, now: ports.clock() });
  metrics.observe(
    {
      expiries: () => expiries(identities, own),
      bundleConfirmedAt: () => poll?.confirmedAt,
    },
    ports.clock,
  );
  const server = await serveStatus(configuration.statusAddress, {
    status,
    metrics: () => metrics.text(),
  }).catch((error: unknown) => {
    throw new ConfigurationError(`RAMPART_STATUS_ADDR: ${sentence(error)}`);
  });
  endings.add(() => server.close());
  ports.log({ event: "agent-started", level: "info", mode: subject.mode, sdsSocket });
  return { status, statusUrl: server.url, close: () => endings.end() };
}

function* expiries(
  identities: Identities,
  own: KeptIdentity | undefined,
): Generator<readonly [string, Date]> {
  for (const identity of identities.all()) {
    const { notAfter, spiffeId } = identity.status;
    if (notAfter) yield [identity === own ? "default" : spiffeId, notAfter];
  }
}
