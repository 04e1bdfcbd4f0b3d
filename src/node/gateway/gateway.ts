import type { Hono } from "hono";
import type { Registry } from "prom-client";
import type { RootsReport } from "../../delivery/delivery-progress.ts";
import {
  addConfigurationMetrics,
  withConfigurationReasons,
} from "../../program/configuration-status.ts";
import { addReadyGauge, countingOperations, createRegistry } from "../../program/metrics.ts";
import { ReplaceableWork } from "../../program/replaceable-work.ts";
import type { Reconfigure } from "../../program/running-configuration.ts";
import { unavailable } from "../../transport/http/polled-endpoint.ts";
import { createProbedApp, type Readiness } from "../../transport/http/probed-app.ts";
import { createCertificatePath } from "../../transport/http/routes.ts";
import { addGuardGauges, countLimits, createRpcMetrics } from "../caller-metrics.ts";
import { addRootGauges } from "../distribute/refreshing-roots.ts";
import type { UpstreamBundle } from "../distribute/upstream-bundle.ts";
import { type AuxiliaryRpcs, auxiliaryRpcs } from "../http/auxiliary-rpcs.ts";
import { listenInPlaintext, listenWithTls } from "../http/listener.ts";
import { RenewingListener } from "../http/renewing-listener.ts";
import { createMonitoringRoutes, type Routes } from "../http/routes.ts";
import { createGuard, thisProcess } from "../limits/guard.ts";
import type { RunningServer, ServerContext } from "../server.ts";
import { countForwardedCalls } from "./forwarding.ts";
import type { GatewayConfiguration } from "./gateway-configuration.ts";
import { beginGatewayWork, type GatewayWork } from "./gateway-work.ts";

/** A gateway that takes on another configuration while it runs. */
export interface RunningGateway extends RunningServer {
  readonly reconfigure: Reconfigure<GatewayConfiguration>;
}

/**
 * Runs a gateway: it serves native gRPC and forwards to a CA over HTTPS. So unmodified clients of Istio
 * reach a CA that cannot serve native gRPC. It holds no key but that of its own certificate.
 */
export async function runGateway(
  configuration: GatewayConfiguration,
  context: ServerContext,
): Promise<RunningGateway> {
  const registry = createRegistry();
  const serverContext = { ...context, log: countingOperations(context.log, registry) };
  const { log, clock, pause } = serverContext;
  const { trustDomain, listen } = configuration;
  const verification = { trustDomain, clock, log };
  const ended = countForwardedCalls(registry);
  // Work that outlives a failed start would keep a process alive that no probe can reach.
  await using starting = new AsyncDisposableStack();
  const gateway = await ReplaceableWork.open(configuration, (next, before?: GatewayWork) =>
    beginGatewayWork(next, { ...serverContext, ended }, before),
  );
  starting.defer(gateway.end);
  const { current } = gateway;
  addGauges(registry, current, context);
  const trustBundle = () => trustBundleOf(current().bundle);
  const guard = createGuard(configuration.limits, countLimits(registry), thisProcess());
  addGuardGauges(registry, guard);
  let isOpen = false;
  const readiness = () => readinessOf(isOpen, current(), context);
  addReadyGauge(registry, "1 when the gateway forwards calls.", () => readiness().ready);
  const app = gatewayApp(readiness, trustBundle, clock);
  const auxiliary = auxiliaryRpcs(async () => isOpen, configuration.diagnosticRpcs);
  const routes = routesOf(current, app, auxiliary, { registry, log });
  const monitoring = await listenInPlaintext(
    createMonitoringRoutes(routes, () => registry.metrics()),
    configuration.monitoringListen,
  );
  const work = starting.move();
  const door = new RenewingListener({
    certificateAt: (now) => current().certificateAt(now),
    clientRootsAt: trustBundle,
    listen: async (shown) => {
      const listener = await listenWithTls(routes, listen, shown, verification, guard);
      isOpen = true;
      return listener;
    },
    log,
    clock,
    pause,
  });
  return {
    address: door.address,
    plaintextAddress: undefined,
    monitoringAddress: monitoring.address,
    reconfigure: async (next) => {
      const inPart = await gateway.reconfigure(next);
      guard.follow(next.limits);
      return inPart;
    },
    close: async (grace) => {
      isOpen = false;
      await using rest = new AsyncDisposableStack();
      rest.defer(guard.end);
      rest.defer(() => monitoring.close(grace));
      await Promise.all([door.close(grace), work.disposeAsync()]);
    },
  };
}

/** @throws Error before the first bundle. */
async function trustBundleOf({ asked, current }: UpstreamBundle): Promise<string> {
  if (!current()) await asked;
  const bundle = current();
  if (bundle) return bundle.pem;
  throw new Error("the CA has not published a trust bundle yet");
}

function addGauges(
  registry: Registry,
  current: () => GatewayWork,
  { configurationStatus }: ServerContext,
): void {
  const { roots: first } = current();
  // A change of `DELIVER_ROOTS` takes a restart.
  if (first) addRootGauges(registry, { report: () => (current().roots ?? first).report() });
  addConfigurationMetrics(registry, configurationStatus);
}

function routesOf(
  current: () => GatewayWork,
  app: Hono,
  { forCallers, forMonitoring }: AuxiliaryRpcs,
  { registry, log }: Pick<ServerContext, "log"> & { readonly registry: Registry },
): Routes {
  const createCertificate = createRpcMetrics(registry)(createCertificatePath, (request) =>
    current().forward(request),
  );
  return {
    rpcs: new Map([[createCertificatePath, createCertificate], ...forCallers.rpcs]),
    streamingRpcs: forCallers.streamingRpcs,
    monitoringRpcs: forMonitoring,
    fetch: async (request) => app.fetch(request),
    log,
  };
}

/** Calls need no roots in namespaces, so the operator decides whether readiness waits for them. */
function readinessOf(
  isOpen: boolean,
  { roots: delivery, configuration: { isReadyWithRoots } }: GatewayWork,
  { configurationStatus }: ServerContext,
): Readiness & { readonly roots?: RootsReport } {
  const roots = delivery?.report();
  const faults = [
    ...(isOpen ? [] : ["there is no serving certificate yet, or the gateway is ending"]),
    ...(isReadyWithRoots ? (roots?.reasons ?? []) : []),
  ];
  const state = { ready: faults.length === 0, reasons: faults, ...(roots && { roots }) };
  return withConfigurationReasons(state, configurationStatus);
}

function gatewayApp(
  readiness: () => Readiness,
  trustBundle: () => Promise<string>,
  clock: () => Date,
): Hono {
  const app = createProbedApp(readiness);
  app.get("/bundle.pem", async (c) =>
    c.body(await trustBundle(), 200, { "content-type": "application/x-pem-file" }),
  );
  app.onError(() => unavailable(clock()));
  return app;
}
