import { Hono } from "hono";
import { Gauge, type Registry } from "prom-client";
import { type BundleFollower, createBundleFollower, textOf } from "./bundle-follower.ts";
import { clusterFetch } from "./cluster-fetch.ts";
import { createClusterTrustBundle } from "./cluster-trust-bundle.ts";
import type { DistributeConfiguration } from "./distribute-configuration.ts";
import { createRegistry } from "./grpc-metrics.ts";
import { createKubernetesClient } from "./kubernetes-client.ts";
import { type Listener, listenInPlaintext } from "./listener.ts";
import { createMonitoringSite } from "./monitoring-site.ts";
import { recur } from "./recurrence.ts";
import { createRootDelivery, logFault, type RootDelivery } from "./root-delivery.ts";
import type { Surroundings } from "./serve.ts";

const bundleSeconds = 30;
const deliverySeconds = 0.25;

/**
 * istiod's namespace controller by itself: follows the trust bundle of a CA, and keeps it in every
 * namespace of a cluster. It deletes nothing, ever.
 */
export async function distribute(
  configuration: DistributeConfiguration,
  { log, clock }: Surroundings,
): Promise<Listener> {
  const ending = new AbortController();
  const { signal } = ending;
  const { server, tokenFile, configMap, clusterTrustBundle } = configuration;
  const { upstream, upstreamRootsFile, serverRootsFile } = configuration;
  const follower = await createBundleFollower(upstream, upstreamRootsFile, log);
  const fetch = clusterFetch(await textOf(serverRootsFile));
  const client = createKubernetesClient(server, tokenFile, fetch);
  const deliveries = [
    ...(configMap === undefined ? [] : [createRootDelivery(client, configMap, log, signal)]),
    ...(clusterTrustBundle ? [createClusterTrustBundle(client, log, signal)] : []),
  ];
  const progress = createProgress(follower, deliveries);
  const deliver = async (): Promise<void> => {
    const [bundle, now] = [follower.current(), clock()];
    if (bundle) await Promise.all(deliveries.map((each) => each.deliver(bundle, now)));
    progress.note(now);
  };
  const registry = createRegistry();
  addGauges(registry, progress.report);
  const app = monitoringApp(progress.report);
  const site = { rpcs: new Map(), fetch: async (request: Request) => app.fetch(request), log };
  const monitoring = await listenInPlaintext(
    createMonitoringSite(site, registry),
    configuration.monitoringListen,
  );
  const work = [
    recur(
      () => follower.look(signal),
      bundleSeconds,
      (error) => logFault(log, "bundle-not-fetched", error),
    ),
    recur(deliver, deliverySeconds, (error) => logFault(log, "delivery-failed", error)),
  ];
  return {
    address: monitoring.address,
    close: async (grace) => {
      ending.abort();
      await Promise.all(work.map(({ end }) => end()));
      await monitoring.close(grace);
    },
  };
}

/** What is known of the delivery to this cluster. */
interface Report {
  readonly ready: boolean;
  /** `spiffe_sequence` of the bundle that is being delivered. */
  readonly sequence: number | undefined;
  /** Since when it has been everywhere, without a gap. */
  readonly since: Date | undefined;
  readonly delivered: number;
  readonly pending: readonly string[];
  readonly reasons: readonly string[];
}

interface Progress {
  /** Notes whether the bundle is everywhere now. */
  readonly note: (now: Date) => void;
  readonly report: () => Report;
}

/** So many pending places are named; more are counted. */
const namedPending = 10;

function createProgress(follower: BundleFollower, deliveries: readonly RootDelivery[]): Progress {
  let since: { readonly at: Date; readonly pem: string } | undefined;

  function look() {
    const bundle = follower.current();
    const states = bundle ? deliveries.map((each) => each.stateOf(bundle)) : [];
    const pending = states.flatMap((state) => state.pending);
    const hasAll = states.every((state) => state.hasAll);
    const ready = bundle !== undefined && hasAll && pending.length === 0;
    return { bundle, states, pending, hasAll, ready };
  }

  return {
    note: (now) => {
      const { bundle, ready } = look();
      if (!ready || !bundle) since = undefined;
      else if (since?.pem !== bundle.pem) since = { at: now, pem: bundle.pem };
    },
    report: () => {
      const { bundle, states, pending, hasAll, ready } = look();
      return {
        ready,
        sequence: bundle?.sequence,
        since: ready && since?.pem === bundle?.pem ? since?.at : undefined,
        delivered: states.reduce((sum, { delivered }) => sum + delivered.length, 0),
        pending: pending.slice(0, namedPending),
        reasons: [
          ...(bundle ? [] : ["the CA has not been heard yet"]),
          ...(hasAll ? [] : ["the cluster has not been seen yet"]),
          ...(pending.length === 0 ? [] : [`${pending.length} places have yet to get the bundle`]),
        ],
      };
    },
  };
}

function monitoringApp(report: () => Report): Hono {
  const app = new Hono();
  app.get("/healthz", (c) => c.text("ok\n"));
  app.get("/readyz", (c) => {
    const now = report();
    return c.json(now, now.ready ? 200 : 503, { "cache-control": "no-store" });
  });
  app.notFound((c) => c.text("not found\n", 404));
  return app;
}

function addGauges(registry: Registry, report: () => Report): void {
  const gauge = (name: string, help: string, read: (now: Report) => number) =>
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
    "Since when it has been everywhere, in Unix time.",
    ({ since }) => (since ? since.getTime() / 1000 : Number.NaN),
  );
  gauge(
    "rampart_distribute_namespaces_delivered",
    "Places that have it: namespaces, mostly.",
    ({ delivered }) => delivered,
  );
  gauge("rampart_ready", "1 when every place has it.", ({ ready }) => (ready ? 1 : 0));
}
