import { hash } from "node:crypto";
import type { Registry } from "prom-client";
import { createClusterTrustBundle } from "../../delivery/cluster-trust-bundle.ts";
import { ConfigMapDelivery, type RootDelivery } from "../../delivery/config-map-delivery.ts";
import { OperationLog } from "../../foundation/events.ts";
import type { KubernetesClient } from "../../kubernetes/client.ts";
import { ConfigMapName } from "../../kubernetes/names.ts";
import type { NumberedBundle } from "../../pki/authority/trust-bundle.ts";
import { addSeconds } from "../../pki/x509/validity.ts";
import { Metrics } from "../../program/metrics.ts";
import { Recurrence } from "../../program/recurrence.ts";
import { openApiServer, type RootPlaces } from "../files/places.ts";
import type { ServerContext } from "../server.ts";
import { DeliveryProgress, type RootsReport } from "./delivery-progress.ts";
import type { UpstreamTrust } from "./upstream-trust.ts";

const deliverySeconds = 0.25;

const digest = (pem: string): string => (pem === "" ? "" : hash("sha256", pem));

/** How long roots wait for the first list of the cluster's CRLs. */
const firstListSeconds = 10;

/** How long new roots wait in a namespace to which their CRLs cannot be delivered. */
const crlSeconds = 60;

/** The delivery of roots into a cluster, which follows the CA's bundle until {@link end}. */
export interface RefreshingRoots {
  /** The progress. Until every list of the cluster has ended once, it is that of the former delivery, if there was one. */
  readonly report: () => RootsReport;
  readonly end: () => Promise<void>;
}

/**
 * Keeps the trust bundle of a CA in the places of a cluster, and never deletes anything there.
 *
 * @throws OperatorError if the roots of the API server's certificate cannot be read.
 * @param before The report of a former delivery from the same CA to the same places.
 */
export async function refreshRoots(
  trust: UpstreamTrust,
  places: RootPlaces,
  { log, clock, pause }: ServerContext,
  before?: RootsReport,
): Promise<RefreshingRoots> {
  const ending = new AbortController();
  const client = await openApiServer(places);
  const target = { client, log, clock, signal: ending.signal };
  const crls = places.deliversCrls ? new CrlsBeforeRoots(trust.crls, target) : undefined;
  const roots = new DeliveryProgress(
    crls ? trust.roots : trust.published.current,
    rootDeliveries(places, target, crls),
  );
  const deliver = async (): Promise<void> => {
    const both = [crls?.begin(), roots.begin()];
    if (crls?.isUnknown()) both.pop();
    for (const each of both) await each?.(clock());
  };
  const failed = (error: unknown): void => OperationLog.logFault(log, "delivery-failed", error);
  const delivering = Recurrence.start(deliver, deliverySeconds, failed, pause);
  return {
    report: () => {
      const works = crls ? [roots, crls.progress] : [roots];
      if (before && !works.every((each) => each.hasAll())) return before;
      return crls ? together(roots.report(), crls.progress.report()) : roots.report();
    },
    end: async () => {
      ending.abort();
      await delivering.end();
    },
  };
}

interface DeliveryTarget {
  readonly client: KubernetesClient;
  readonly log: OperationLog;
  readonly clock: () => Date;
  /** Ends the watches. */
  readonly signal: AbortSignal;
}

function rootDeliveries(
  { configMap, clusterTrustBundles }: RootPlaces,
  { client, log, signal }: DeliveryTarget,
  crls: CrlsBeforeRoots | undefined,
): readonly RootDelivery[] {
  const options = { digest, ...crls?.order };
  return [
    ...(configMap === undefined
      ? []
      : [new ConfigMapDelivery(client, configMap, log, signal, options)]),
    ...clusterTrustBundles.map((each) => createClusterTrustBundle(client, each, log, signal)),
  ];
}

/**
 * Delivers the CA's CRLs to every namespace, before the roots of the same bundle: under a root without its CRL Envoy
 * refuses every certificate, and a CRL without its root does no harm.
 */
class CrlsBeforeRoots {
  readonly progress: DeliveryProgress;
  readonly #current: UpstreamTrust["crls"];
  readonly #clock: () => Date;
  readonly #configMaps: ConfigMapDelivery;
  readonly #listedBy: Date;
  #crls: NumberedBundle | undefined;
  #waiting: { readonly pem: string; readonly since: Date };

  constructor(current: UpstreamTrust["crls"], { client, log, clock, signal }: DeliveryTarget) {
    this.#current = current;
    this.#clock = clock;
    this.#configMaps = new ConfigMapDelivery(client, ConfigMapName.ofCrls, log, signal, { digest });
    this.progress = new DeliveryProgress(current, [this.#configMaps]);
    this.#listedBy = addSeconds(clock(), firstListSeconds);
    this.#waiting = { pem: "", since: clock() };
  }

  /** As {@link DeliveryProgress.begin}. */
  begin(): (now: Date) => Promise<void> {
    this.#crls = this.#current();
    return this.progress.begin();
  }

  /** Whether roots still wait for the first list of the cluster's CRLs. */
  isUnknown(): boolean {
    return !this.progress.hasAll() && this.#clock() < this.#listedBy;
  }

  /** The order in which a namespace gets CRLs and roots. */
  readonly order = {
    mayHave: (namespace: string, { pem }: NumberedBundle): boolean => {
      const now = this.#clock();
      // If the clock was set back, the time is counted anew.
      if (this.#waiting.pem !== pem || now < this.#waiting.since)
        this.#waiting = { pem, since: now };
      return !this.#holdsOthers(namespace) || now >= addSeconds(this.#waiting.since, crlSeconds);
    },
    /** Delivers CRLs together with roots, because after an outage the retries of CRLs alone may pause for longer. */
    beside: async (namespace: string, now: Date): Promise<void> => {
      if (this.#crls && this.#holdsOthers(namespace))
        await this.#configMaps.apply(namespace, this.#crls, now);
    },
  };

  #holdsOthers(namespace: string): boolean {
    return this.#configMaps.holdsOther(namespace, this.#crls);
  }
}

/** Combines the reports on roots and on CRLs. */
function together(roots: RootsReport, crls: RootsReport): RootsReport {
  return {
    ...roots,
    ready: roots.ready && crls.ready,
    pending: [...roots.pending, ...crls.pending],
    reasons: [...roots.reasons, ...crls.reasons.map((reason) => `CRLs: ${reason}`)],
  };
}

/** Adds the metrics of the delivery of roots. */
export function addRootGauges(
  registry: Registry,
  { report }: Pick<RefreshingRoots, "report">,
): void {
  const gauge = (name: string, help: string, read: (now: RootsReport) => number) =>
    Metrics.addReadGauge(registry, { name, help, read: () => read(report()) });
  gauge(
    "rampart_distribute_bundle_sequence",
    "The trust bundle that is being delivered.",
    ({ sequence }) => sequence ?? Number.NaN,
  );
  gauge(
    "rampart_distribute_delivered_since_timestamp",
    "When every place got the trust bundle, in Unix time.",
    ({ since }) => Metrics.unixTime(since),
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
