import { Gauge } from "prom-client";
import type { Listener } from "../http/listener.ts";
import { monitorWork } from "../http/monitored-work.ts";
import { createRegistry } from "../observability/grpc-metrics.ts";
import { countingOperations } from "../observability/operation-metrics.ts";
import type { ServerContext } from "../server.ts";
import type { DistributeConfiguration } from "./distribute-configuration.ts";
import { addRootGauges, refreshRoots } from "./refreshing-roots.ts";
import { followUpstreamBundle } from "./upstream-bundle.ts";

/** Keeps the trust bundle of a CA in every namespace of a cluster, and reports its progress. */
export async function distribute(
  configuration: DistributeConfiguration,
  context: ServerContext,
): Promise<Listener> {
  const registry = createRegistry();
  const serverContext = { ...context, log: countingOperations(context.log, registry) };
  // Work that outlives a failed start would keep a process alive that no probe can reach.
  await using starting = new AsyncDisposableStack();
  const bundle = await followUpstreamBundle(configuration, serverContext);
  starting.defer(bundle.end);
  const roots = await refreshRoots(bundle, configuration.places, serverContext);
  starting.defer(roots.end);
  addRootGauges(registry, roots);
  new Gauge({
    name: "rampart_ready",
    help: "1 when every place has the trust bundle.",
    registers: [registry],
    collect() {
      this.set(roots.report().ready ? 1 : 0);
    },
  });
  return await monitorWork(starting, {
    readiness: roots.report,
    registry,
    listen: configuration.monitoringListen,
    log: serverContext.log,
  });
}
