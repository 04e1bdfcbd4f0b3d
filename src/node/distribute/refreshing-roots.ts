import { Gauge, type Registry } from "prom-client";
import { createClusterTrustBundle } from "../../delivery/cluster-trust-bundle.ts";
import { createConfigMapDelivery } from "../../delivery/config-map-delivery.ts";
import { createDeliveryProgress, type RootsReport } from "../../delivery/delivery-progress.ts";
import { logFault } from "../../foundation/fault-log.ts";
import { recur } from "../../host/recurrence.ts";
import { openApiServer } from "../files/api-server-place.ts";
import type { RootPlaces } from "../files/root-places.ts";
import type { ServerContext } from "../server.ts";
import type { UpstreamBundle } from "./upstream-bundle.ts";

const deliverySeconds = 0.25;

/** A running delivery of a trust bundle to a cluster. */
export interface RefreshingRoots {
  readonly report: () => RootsReport;
  readonly end: () => Promise<void>;
}

/**
 * Keeps the trust bundle of a CA in every namespace of a cluster, as the namespace controller of istiod
 * does. It never deletes anything.
 */
export async function refreshRoots(
  { current }: UpstreamBundle,
  places: RootPlaces,
  { log, clock, pause }: ServerContext,
): Promise<RefreshingRoots> {
  const ending = new AbortController();
  const { signal } = ending;
  const client = await openApiServer(places);
  const { configMap, clusterTrustBundles } = places;
  const deliveries = [
    ...(configMap === undefined ? [] : [createConfigMapDelivery(client, configMap, log, signal)]),
    ...clusterTrustBundles.map((each) => createClusterTrustBundle(client, each, log, signal)),
  ];
  const progress = createDeliveryProgress(current, deliveries);
  const deliver = async (): Promise<void> => {
    const [bundle, now] = [current(), clock()];
    if (bundle) await Promise.all(deliveries.map((each) => each.deliver(bundle, now)));
    progress.note(now);
  };
  const failed = (error: unknown): void => logFault(log, "delivery-failed", error);
  const delivering = recur(deliver, deliverySeconds, failed, pause);
  return {
    report: progress.report,
    end: () => {
      ending.abort();
      return delivering.end();
    },
  };
}

/** Adds the report as metrics. */
export function addRootGauges(registry: Registry, { report }: RefreshingRoots): void {
  const gauge = (name: string, help: string, read: (now: RootsReport) => number) =>
    new Gauge({
      name,
      help,
      registers: [registry],
      collect() {
        this.set(read(report()));
      },
    });
  gauge(
    "rampart_distribute_bundle_sequence",
    "The trust bundle that is being delivered.",
    ({ sequence }) => sequence ?? Number.NaN,
  );
  gauge(
    "rampart_distribute_delivered_since_timestamp",
    "When every place got the trust bundle, in Unix time.",
    ({ since }) => (since ? since.getTime() / 1000 : Number.NaN),
  );
  gauge(
    "rampart_distribute_namespaces_delivered",
    "Places that have the trust bundle: mostly namespaces.",
    ({ delivered }) => delivered,
  );
  gauge("rampart_distribute_ready", "1 when every place has the trust bundle.", ({ ready }) =>
    ready ? 1 : 0,
  );
}
