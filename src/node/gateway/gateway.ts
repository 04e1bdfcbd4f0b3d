import type { Hono } from "hono";
import type { Registry } from "prom-client";
import type { RootsReport } from "../../delivery/delivery-progress.ts";
import { logFault } from "../../foundation/fault-log.ts";
import { createProbedApp, type Readiness } from "../../transport/http/probed-app.ts";
import { createCertificatePath } from "../../transport/http/routes.ts";
import {
  addRootGauges,
  type RefreshingRoots,
  refreshRoots,
} from "../distribute/refreshing-roots.ts";
import { followUpstreamBundle, type UpstreamBundle } from "../distribute/upstream-bundle.ts";
import { type AuxiliaryRpcs, auxiliaryRpcs } from "../http/auxiliary-rpcs.ts";
import { listenInPlaintext, listenWithTls } from "../http/listener.ts";
import { createMonitoringRoutes } from "../http/monitoring-routes.ts";
import type { Routes } from "../http/routes.ts";
import { createGuard } from "../limits/guard.ts";
import { thisProcess } from "../limits/quiet-collection.ts";
import { addReadyGauge, countForwardedCalls } from "../observability/gateway-metrics.ts";
import { createRegistry, createRpcMetrics } from "../observability/grpc-metrics.ts";
import { addGuardGauges, countLimits } from "../observability/limit-metrics.ts";
import { countingOperations } from "../observability/operation-metrics.ts";
import type { RunningServer, ServerContext } from "../server.ts";
import { openWhenCertified } from "../tls/renewing-listener.ts";
import { certificateInFiles, type ServingCertificateSource } from "../tls/serving-certificate.ts";
import type { GatewayConfiguration } from "./gateway-configuration.ts";
import { certificateFromUpstream, tokenInFile } from "./gateway-identity.ts";
import { type Forwarding, forwardingRpc } from "./gateway-routes.ts";
import { openUpstream } from "./upstream.ts";

/**
 * Runs a gateway: it serves native gRPC and forwards to a CA over HTTPS. So unmodified clients of Istio
 * reach a CA that cannot serve native gRPC. It holds no key but that of its own certificate.
 */
export async function runGateway(
  configuration: GatewayConfiguration,
  context: ServerContext,
): Promise<RunningServer> {
  const registry = createRegistry();
  const serverContext = { ...context, log: countingOperations(context.log, registry) };
  const { log, clock, pause } = serverContext;
  const { trustDomain } = configuration;
  // Work that outlives a failed start would keep a process alive that no probe can reach.
  await using starting = new AsyncDisposableStack();
  const upstream = await openUpstream(configuration.upstream, configuration.upstreamRootsFile);
  const credentials = tokenInFile(configuration.tokenFile, configuration.cluster);
  const ended = countForwardedCalls(registry);
  const forwarding = { upstream, credentials, trustDomain, log, clock, ended };
  const bundle = await followUpstreamBundle(configuration, serverContext);
  starting.defer(bundle.end);
  const roots = await deliverRoots(bundle, configuration, { ...serverContext, registry });
  if (roots) starting.defer(roots.end);
  const trustBundle = () => trustBundleOf(bundle);
  const guard = createGuard(configuration.limits, countLimits(registry), thisProcess());
  addGuardGauges(registry, guard);
  let isOpen = false;
  const readiness = () => readinessOf(isOpen, roots, configuration);
  addReadyGauge(registry, () => readiness().ready);
  const app = gatewayApp(readiness, trustBundle);
  const auxiliary = auxiliaryRpcs(async () => isOpen, configuration.diagnosticRpcs);
  const routes = routesOf(forwarding, registry, app, auxiliary);
  const monitoring = await listenInPlaintext(
    createMonitoringRoutes(routes, () => registry.metrics()),
    configuration.monitoringListen,
  );
  const work = starting.move();
  const door = openWhenCertified({
    certificateAt: servingCertificate(configuration, forwarding),
    clientRootsAt: trustBundle,
    listen: async (shown) => {
      const verification = { trustDomain, clock, log };
      const listener = await listenWithTls(
        routes,
        configuration.listen,
        shown,
        verification,
        guard,
      );
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
    close: async (grace) => {
      isOpen = false;
      await using rest = new AsyncDisposableStack();
      rest.defer(upstream.close);
      rest.defer(guard.end);
      rest.defer(() => monitoring.close(grace));
      await Promise.all([door.close(grace), work.disposeAsync()]);
    },
  };
}

async function deliverRoots(
  bundle: UpstreamBundle,
  { rootPlaces }: GatewayConfiguration,
  { registry, ...serverContext }: ServerContext & { readonly registry: Registry },
): Promise<RefreshingRoots | undefined> {
  if (!rootPlaces) return undefined;
  const roots = await refreshRoots(bundle, rootPlaces, serverContext);
  addRootGauges(registry, roots);
  return roots;
}

/** @throws Error before the first bundle. */
async function trustBundleOf({ asked, current }: UpstreamBundle): Promise<string> {
  await asked;
  const bundle = current();
  if (bundle) return bundle.pem;
  throw new Error("the CA has not published a trust bundle yet");
}

function servingCertificate(
  { certificateFiles }: GatewayConfiguration,
  { upstream, credentials, log }: Forwarding,
): ServingCertificateSource {
  return certificateFiles
    ? certificateInFiles(certificateFiles)
    : certificateFromUpstream(upstream, credentials, (error) =>
        logFault(log, "renewal-failed", error, { what: "serving certificate" }),
      );
}

function routesOf(
  forwarding: Forwarding,
  registry: Registry,
  app: Hono,
  { forCallers, forMonitoring }: AuxiliaryRpcs,
): Routes {
  const createCertificate = createRpcMetrics(registry)(
    createCertificatePath,
    forwardingRpc(forwarding),
  );
  return {
    rpcs: new Map([[createCertificatePath, createCertificate], ...forCallers.rpcs]),
    streamingRpcs: forCallers.streamingRpcs,
    monitoringRpcs: forMonitoring,
    fetch: async (request) => app.fetch(request),
    log: forwarding.log,
  };
}

/** Calls need no roots in namespaces, so the operator decides whether readiness waits for them. */
function readinessOf(
  isOpen: boolean,
  delivery: RefreshingRoots | undefined,
  { isReadyWithRoots }: GatewayConfiguration,
): Readiness & { readonly roots?: RootsReport } {
  const roots = delivery?.report();
  const reasons = [
    ...(isOpen ? [] : ["there is no serving certificate yet, or the gateway is ending"]),
    ...(isReadyWithRoots ? (roots?.reasons ?? []) : []),
  ];
  return { ready: reasons.length === 0, reasons, ...(roots && { roots }) };
}

function gatewayApp(readiness: () => Readiness, trustBundle: () => Promise<string>): Hono {
  const app = createProbedApp(readiness);
  app.get("/bundle.pem", async (c) =>
    c.body(await trustBundle(), 200, { "content-type": "application/x-pem-file" }),
  );
  app.onError((_, c) => c.text("certificate authority is temporarily unavailable\n", 503));
  return app;
}
