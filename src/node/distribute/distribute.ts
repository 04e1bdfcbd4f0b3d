import type { RootsReport } from "../../delivery/delivery-progress.ts";
import type { Listener } from "../http/listener.ts";
import { monitorWork } from "../http/monitored-work.ts";
import { createRegistry } from "../observability/grpc-metrics.ts";
import { countingOperations } from "../observability/operation-metrics.ts";
import { addReadyGauge } from "../observability/read-gauge.ts";
import {
  addConfigurationMetrics,
  withConfigurationReasons,
} from "../reload/configuration-status.ts";
import { ReplaceableWork } from "../reload/replaceable-work.ts";
import type { Reconfigure } from "../reload/running-configuration.ts";
import type { ServerContext } from "../server.ts";
import type { DistributeConfiguration } from "./distribute-configuration.ts";
import { addRootGauges, type RefreshingRoots, refreshRoots } from "./refreshing-roots.ts";
import { followUpstreamBundle, lastBundleOf, type UpstreamBundle } from "./upstream-bundle.ts";

/** A running `rampart distribute`. */
export interface Distribution extends Listener {
  readonly reconfigure: Reconfigure<DistributeConfiguration>;
}

/** Keeps the trust bundle of a CA in every namespace of a cluster, and reports its progress. */
export async function distribute(
  configuration: DistributeConfiguration,
  context: ServerContext,
): Promise<Distribution> {
  const registry = createRegistry();
  const serverContext = { ...context, log: countingOperations(context.log, registry) };
  // Work that outlives a failed start would keep a process alive that no probe can reach.
  await using starting = new AsyncDisposableStack();
  const work = await ReplaceableWork.open(configuration, (next, before?: Delivery) =>
    beginDelivery(next, serverContext, before),
  );
  starting.defer(work.end);
  const { configurationStatus } = context;
  const report = (): RootsReport =>
    withConfigurationReasons(work.current().report(), configurationStatus);
  addRootGauges(registry, { report });
  addConfigurationMetrics(registry, configurationStatus);
  addReadyGauge(registry, "1 when every place has the trust bundle.", () => report().ready);
  const monitored = await monitorWork(starting, {
    readiness: report,
    registry,
    listen: configuration.monitoringListen,
    log: serverContext.log,
  });
  return { ...monitored, reconfigure: work.reconfigure };
}

/** The delivery of one configuration. */
interface Delivery extends RefreshingRoots {
  readonly bundle: UpstreamBundle;
}

async function beginDelivery(
  configuration: DistributeConfiguration,
  context: ServerContext,
  before: Delivery | undefined,
): Promise<Delivery> {
  await using starting = new AsyncDisposableStack();
  const known = lastBundleOf(before?.bundle, configuration);
  const bundle = await followUpstreamBundle(configuration, context, known);
  starting.defer(bundle.end);
  const roots = await refreshRoots(bundle, configuration.places, context);
  starting.defer(roots.end);
  const begun = starting.move();
  return { report: roots.report, bundle, end: () => begun.disposeAsync() };
}
