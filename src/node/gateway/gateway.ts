import type { Readiness } from "../../foundation/events.ts";
import { Program } from "../../program/program.ts";
import { IssuingPath } from "../../transport/http/paths.ts";
import { PolledEndpoint } from "../../transport/http/polled-endpoint.ts";
import { createProbedApp } from "../../transport/http/probes.ts";
import type { Peer, RpcService } from "../../transport/rpc/rpc.ts";
import type { RootsReport } from "../distribute/delivery-progress.ts";
import { addRootGauges } from "../distribute/roots-delivery.ts";
import { type AuxiliaryRpcs, auxiliaryRpcs } from "../http/auxiliary-rpcs.ts";
import { listenInPlaintext } from "../http/listener.ts";
import { RenewingListener } from "../http/renewing-listener.ts";
import { createMonitoringRoutes, type Routes } from "../http/routes.ts";
import { createRpcMetrics } from "../http/rpc-metrics.ts";
import { listenWithTls } from "../http/tls-listener.ts";
import { notingSpans, traced } from "../http/traced-calls.ts";
import { openGuard } from "../limits/guard.ts";
import { ReplaceableWork } from "../replaceable-work.ts";
import type { FollowingProgram, RunningServer, ServerContext } from "../server.ts";
import { countForwardedCalls } from "./forwarded-call.ts";
import { GatewayConfiguration } from "./gateway-configuration.ts";
import { beginGatewayWork, type GatewayWork, isBelowRoots } from "./gateway-work.ts";
import { SlowCalls } from "./slow-calls.ts";
import { addTrustRoutes, untilEnding } from "./trust-routes.ts";

/**
 * Runs a gateway: it serves native gRPC and forwards to a CA over HTTPS. So unmodified clients of Istio
 * reach a CA that cannot serve native gRPC. It holds no key but that of its own certificate.
 */
export function runGateway(
  configuration: GatewayConfiguration,
  context: ServerContext,
): Promise<RunningServer<GatewayConfiguration>> {
  return Program.begin(context, (program) => openGateway(configuration, program));
}

/** `rampart gateway`. */
export const gateway: FollowingProgram<GatewayConfiguration> = {
  ...GatewayConfiguration,
  start: runGateway,
};

/** It is one function because its parts need one another: readiness needs the port, and the port needs the routes. */
async function openGateway(
  configuration: GatewayConfiguration,
  program: Program<ServerContext>,
): Promise<Omit<RunningServer<GatewayConfiguration>, "close">> {
  const { registry, life } = program;
  const work = await openWork(configuration, program);
  const guard = openGuard(program, configuration.limits);
  let port: RenewingListener | undefined;
  life.endsWith("the port of callers", (grace) => port?.close(grace));
  const state = (): PortState => port?.state() ?? closedPort;
  const readiness = (ownFault?: string) =>
    program.withLife(readinessOf(state(), work.current(), ownFault));
  Program.addReadyGauge(program, "1 when the gateway forwards calls.", () => readiness());
  const peers = new WeakMap<Request, Peer>();
  const app = createProbedApp(async () =>
    readiness((await work.current().ownAuthorization()).fault),
  );
  addTrustRoutes(app, {
    trust: () => work.current().trust,
    peerOf: (request) => peers.get(request) ?? {},
    clock: program.clock,
    ending: life.ending,
  });
  app.onError(() => PolledEndpoint.unavailable(program.clock()));
  const fetch: Routes["fetch"] = async (request, peer) => {
    peers.set(request, peer);
    return app.fetch(request);
  };
  const isServing = async (): Promise<boolean> => state().isOpen && !life.ending.aborted;
  const auxiliary = auxiliaryRpcs(isServing, configuration.diagnosticRpcs, life.ending);
  const routes = routesOf(work.current, fetch, auxiliary, program);
  const monitoring = createMonitoringRoutes(routes, () => registry.metrics());
  const monitoringAddress = await program.monitor(
    listenInPlaintext(monitoring, configuration.monitoringListen),
  );
  port = new RenewingListener({
    ...program,
    certificateAt: (now) => work.current().certificateAt(now),
    isAccepted: (certificate, now) => {
      const { configuration: inForce, trust } = work.current();
      // A certificate from files may be another CA's, whose roots only the callers know.
      return Boolean(inForce.certificateFiles) || isBelowRoots(certificate, trust.published, now);
    },
    clientRootsAt: () => clientRootsOf(work.current(), life.ending),
    listen: (credentials) => {
      const verification = { ...program, trustDomain: configuration.trustDomain };
      return listenWithTls(routes, configuration.listen, credentials, verification, guard);
    },
  });
  return {
    address: port.address,
    monitoringAddress,
    reconfigure: async (next) => {
      const inPart = await work.reconfigure(next);
      guard.follow(next.limits);
      return inPart;
    },
  };
}

/** Whether callers find an open port, and why not. */
interface PortState {
  readonly isOpen: boolean;
  readonly reasons: readonly string[];
}

const closedPort: PortState = {
  isOpen: false,
  reasons: ["there is no serving certificate yet"],
};

async function openWork(
  configuration: GatewayConfiguration,
  program: Program<ServerContext>,
): Promise<ReplaceableWork<GatewayConfiguration, GatewayWork>> {
  const { registry, life } = program;
  const log = notingSpans(program.log, program.telemetry?.spans);
  const means = { ended: countForwardedCalls(registry), slowCalls: new SlowCalls() };
  const work = await ReplaceableWork.open(configuration, (next, before?: GatewayWork) =>
    beginGatewayWork(next, { ...program, ...means, log }, before),
  );
  life.endsWith("the work for callers", work.end);
  const { roots: first } = work.current();
  // A change of `DELIVER_ROOTS` needs a restart.
  if (first) addRootGauges(registry, { report: () => (work.current().roots ?? first).report() });
  return work;
}

/** The roots of client certificates. Rejects before the first bundle of the CA. */
async function clientRootsOf({ trust }: GatewayWork, ending: AbortSignal): Promise<string> {
  const { published } = trust;
  if (!published.current()) await untilEnding(published.asked, ending);
  const known = published.current();
  if (known) return known.pem;
  throw new Error("the CA has not published a trust bundle yet");
}

function routesOf(
  current: () => GatewayWork,
  fetch: Routes["fetch"],
  { forCallers, forMonitoring }: AuxiliaryRpcs,
  { registry, log, telemetry }: Pick<Program<ServerContext>, "log" | "registry" | "telemetry">,
): Routes {
  const measured = createRpcMetrics(registry);
  const forwarded = [...current().forwarded.keys()].map((path): [string, RpcService] => {
    const rpc: RpcService = async (request) => {
      const forward = current().forwarded.get(path);
      if (!forward) throw new Error(`nothing is forwarded at ${path}`);
      return forward(request);
    };
    const counted = path === IssuingPath.tokenExchange ? rpc : measured(path, rpc);
    return [path, traced(telemetry?.spans, path, counted)];
  });
  return {
    rpcs: new Map([...forwarded, ...forCallers.rpcs]),
    monitoringRpcs: forMonitoring,
    fetch,
    log,
  };
}

/** Readiness waits for roots in namespaces only if the operator wants that, because calls do not need them. */
function readinessOf(
  port: PortState,
  { roots: delivery, trust, configuration: { isReadyWithRoots } }: GatewayWork,
  ownFault: string | undefined,
): Readiness & { readonly roots?: RootsReport } {
  const roots = delivery?.report();
  const undelivered = isReadyWithRoots ? (roots?.reasons ?? []) : [];
  const own = ownFault === undefined ? [] : [`the gateway's own token: ${ownFault}`];
  const reasons = [...port.reasons, ...trust.published.faults(), ...own, ...undelivered];
  return { ready: port.isOpen && undelivered.length === 0, reasons, ...(roots && { roots }) };
}
