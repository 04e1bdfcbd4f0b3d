import { ConfigurationError, messageOf } from "../foundation/errors.ts";
import { pause } from "../foundation/pause.ts";
import { sparing } from "../foundation/sparing-log.ts";
import { SecretDiscoveryService } from "../gen/envoy/service/secret/v3/sds_pb.ts";
import { Hex } from "../pki/encoding/bytes.ts";
import { Lifetime } from "../program/lifetime.ts";
import { type AgentParts, type AgentPorts, assembleParts } from "./agent-parts.ts";
import { type AgentStatus, type ReportedParts, reportAgent } from "./agent-status.ts";
import type { CertificateOutput } from "./certificate-output.ts";
import type { AgentConfiguration } from "./configuration.ts";
import { agentSecrets } from "./secrets/agent-secrets.ts";
import type { JwtFiles } from "./secrets/jwt-files.ts";
import { createSecretDiscovery } from "./sockets/secret-discovery.ts";
import { serveOnSocket } from "./sockets/unix-socket.ts";
import { serveStatus } from "./status/status-server.ts";
import { federatedBundleFollowers, OwnBundle, ownCrlFollower } from "./trust/followers.ts";
import type { XdsProxy } from "./xds/xds-proxy.ts";
import type { WorkloadHealth } from "./xds/xds-stream.ts";

// What only some agents need is imported where they need it, so that an idle agent takes little memory.

/** A running agent. */
export interface Agent {
  status(): AgentStatus;
  /** The URL of the status, with the actual port. */
  readonly statusUrl: string;
  /** Shuts down every part of the agent, even if some fail, and gives up on one that hangs. */
  close(): Promise<void>;
}

/** Starts an agent. Nothing is left running when it throws. @throws ConfigurationError */
export async function startAgent(
  configuration: AgentConfiguration,
  ports: AgentPorts,
): Promise<Agent> {
  const life = new Lifetime(ports.log);
  await using failed = new AsyncDisposableStack();
  failed.defer(() => life.end(0));
  const agent = await start(configuration, ports, life);
  failed.move();
  return { ...agent, close: () => life.end(0) };
}

async function start(
  configuration: AgentConfiguration,
  ports: AgentPorts,
  life: Lifetime,
): Promise<Omit<Agent, "close">> {
  for (const { name, why: detail } of configuration.ignoredVariables) {
    ports.log.operation({ event: "variable-ignored", level: "warning", name, detail });
  }
  const parts = await assembleParts(configuration, ports, life);
  ports.telemetry?.begin({ ...ports, registry: parts.metrics.registry, life });
  const { subject, sdsSocket } = configuration;
  const followers = followDocuments(parts, life);
  const feed =
    subject.mode === "node"
      ? await (await import("./node-mode/node-mode.ts")).startNodeMode(subject, parts)
      : undefined;
  life.endsWith("the feed of workloads", () => feed?.close());
  await openSockets(parts, life);
  const xds = await openXdsProxy(parts, life);
  const files = await openFiles(parts, life);
  const { status, statusUrl } = await openStatus(
    { ...parts, ...followers, feed, files, xds },
    life,
  );
  ports.log.operation({ event: "agent-started", level: "info", mode: subject.mode, sdsSocket });
  return { status, statusUrl };
}

/** Follows all bundles and the CRLs. @returns The followers of the agent's own CA. */
function followDocuments(
  parts: AgentParts,
  life: Lifetime,
): Pick<ReportedParts, "bundle" | "crlFollower"> {
  const ending = new AbortController();
  const { revocation } = parts;
  const bundle = new OwnBundle(parts);
  const crlFollower = ownCrlFollower(parts);
  if (!crlFollower) revocation.noteAnswer();
  const { signal } = ending;
  const all = [revocation, bundle, ...federatedBundleFollowers(parts)];
  const following = Promise.all([
    ...all.map((each) => each.run(signal)),
    // CRLs cannot be verified before a root is known.
    Promise.all([parts.trust.known(signal), bundle.found(signal)]).then(() =>
      crlFollower?.run(signal),
    ),
  ]);
  life.endsWith("the followers of bundles and CRLs", async () => {
    ending.abort();
    await following;
  });
  return { bundle, crlFollower };
}

async function openSockets(parts: AgentParts, life: Lifetime): Promise<void> {
  const { configuration, own, clock } = parts;
  const log = sparing(parts.log, clock);
  const { subject, sdsSocket, workloadApiSocket, trustDomain } = configuration;
  // A node proxy's sockets serve every workload, so the agent's user alone may open them.
  const mode = subject.mode === "node" ? 0o600 : 0o666;
  const discovery = createSecretDiscovery({
    ...parts,
    log,
    source: agentSecrets({ ...parts, log }),
  });
  const sds = await serveOnSocket({
    path: sdsSocket,
    mode,
    routes: (router) => void router.service(SecretDiscoveryService, discovery),
    log,
  });
  life.endsWith("the SDS socket", () => sds.close());
  const { jwtSvids } = parts;
  const isServed = own !== undefined || subject.mode === "node";
  if (!isServed || workloadApiSocket === undefined || !jwtSvids) return;
  const { SpiffeWorkloadAPI } = await import("../gen/spiffe/workload_pb.ts");
  const { createWorkloadApi } = await import("./sockets/workload-api.ts");
  const workloadApi = createWorkloadApi({ ...parts, jwtSvids, trustDomain, identity: own });
  const api = await serveOnSocket({
    path: workloadApiSocket,
    mode,
    routes: (router) => void router.service(SpiffeWorkloadAPI, workloadApi),
    log,
  });
  life.endsWith("the socket of the Workload API", () => api.close());
}

/** Keeps the files of the agent's own identity up to date. @returns Their faults, read anew at each access. */
async function openFiles(
  parts: AgentParts,
  life: Lifetime,
): Promise<Pick<CertificateOutput, "faults">> {
  const output = await openOutput(parts, life);
  const tokens = await openTokenFiles(parts, life);
  return {
    get faults() {
      return [...(output?.faults ?? []), ...(tokens?.faults ?? [])];
    },
  };
}

async function openOutput(
  parts: AgentParts,
  life: Lifetime,
): Promise<CertificateOutput | undefined> {
  const { configuration, own: identity } = parts;
  const { output: settings, isPkcs8, request } = configuration;
  if (!identity || !settings) return undefined;
  const { CertificateOutput } = await import("./certificate-output.ts");
  const { purpose } = request;
  const files = new CertificateOutput({ ...parts, settings, identity, isPkcs8, purpose });
  life.endsWith("the output of files", () => files.close());
  return files;
}

async function openTokenFiles(parts: AgentParts, life: Lifetime): Promise<JwtFiles | undefined> {
  const { jwtSvids, configuration } = parts;
  if (!jwtSvids) return undefined;
  const { jwtFiles: files, subject } = configuration;
  let tokens: JwtFiles | undefined;
  // Both at once: `close` waits for the pending requests for tokens, and `end` ends them.
  life.endsWith(
    "the tokens and their files",
    () => jwtSvids.end(),
    () => tokens?.close(),
  );
  if (subject.mode === "node" || files.length === 0) return undefined;
  const { JwtFiles } = await import("./secrets/jwt-files.ts");
  tokens = new JwtFiles({ ...parts, jwtSvids, files, spiffeId: subject.spiffeId });
  return tokens;
}

async function openXdsProxy(
  { configuration, metrics: { registry }, known, clock, log, proxy: envoy }: AgentParts,
  life: Lifetime,
): Promise<XdsProxy | undefined> {
  if (!configuration.xds) return undefined;
  const { XdsProxy } = await import("./xds/xds-proxy.ts");
  const ports = { clock, pause, known, log: sparing(log, clock), registry };
  const proxy = new XdsProxy(configuration.xds, ports);
  life.endsWith("the XDS proxy", () => proxy.close());
  await proxy.listen();
  if (configuration.health) {
    const { watchWorkload } = await import("./xds/workload-health.ts");
    const ending = new AbortController();
    const report = (health: WorkloadHealth): void => proxy.reportHealth(health);
    const watching = watchWorkload(
      configuration.health,
      { pause, log, report, proxy: envoy },
      ending.signal,
    );
    life.endsWith("the probes of the workload", async () => {
      ending.abort();
      await watching;
    });
  }
  return proxy;
}

async function openStatus(
  parts: AgentParts & Pick<ReportedParts, "bundle" | "crlFollower" | "feed" | "files" | "xds">,
  life: Lifetime,
): Promise<Pick<Agent, "status" | "statusUrl">> {
  const { configuration, metrics, bundle, clock } = parts;
  const status = (): AgentStatus => reportAgent({ ...parts, now: clock() });
  const crlExpiries = () => crlExpiriesOf(parts);
  metrics.observe({ expiries: () => expiries(parts), bundle, crlExpiries }, clock);
  const view = { status, metrics: () => metrics.text(), proxy: parts.proxy };
  const server = await serveStatus(configuration.statusAddress, view).catch((error: unknown) => {
    throw new ConfigurationError([`RAMPART_STATUS_ADDR: ${messageOf(error)}`]);
  });
  life.endsWith("the status port", () => server.close());
  return { status, statusUrl: server.url };
}

function* expiries({ identities, own, mounted }: AgentParts): Generator<readonly [string, Date]> {
  const { leaf } = mounted;
  if (leaf) yield ["default", leaf.validToDate];
  for (const identity of identities.all()) {
    const { notAfter, spiffeId } = identity.status;
    const isServed = identity !== own || !leaf;
    if (notAfter && isServed) yield [identity === own ? "default" : spiffeId, notAfter];
  }
}

function* crlExpiriesOf({ revocation }: AgentParts): Generator<readonly [string, Date]> {
  for (const { authorityKeyIdentifier: id, nextUpdate } of revocation.all) {
    if (nextUpdate) yield [id ? Hex.format(id) : "", nextUpdate];
  }
}
