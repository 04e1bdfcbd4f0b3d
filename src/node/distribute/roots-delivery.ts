import { hash } from "node:crypto";
import type { Registry } from "prom-client";
import { createClusterTrustBundle } from "../../delivery/cluster-trust-bundle.ts";
import { ConfigMapDelivery } from "../../delivery/config-map-delivery.ts";
import type { RootDelivery } from "../../delivery/root-delivery.ts";
import { OperationLog } from "../../foundation/events.ts";
import { ConfigMapName } from "../../kubernetes/names.ts";
import type { NumberedBundle } from "../../pki/authority/trust-bundle.ts";
import { addSeconds } from "../../pki/x509/validity.ts";
import { Metrics } from "../../program/metrics.ts";
import { openApiServer, type RootPlaces } from "../files/places.ts";
import { Recurrence } from "../recurrence.ts";
import type { ServerContext } from "../server.ts";
import { DeliveryProgress, type RootsReport } from "./delivery-progress.ts";
import type { UpstreamTrust } from "./upstream-trust.ts";

const deliverySeconds = 0.25;

const digest = (pem: string): string => (pem === "" ? "" : hash("sha256", pem));

/** How long roots wait until it is known which CRLs the cluster holds. */
const firstListSeconds = 10;

/** How long new roots wait where a namespace does not get their CRLs. */
const crlSeconds = 60;

/** The delivery of roots into a cluster, which follows the CA's bundle until it is ended. */
export interface RefreshingRoots {
  /** Before every list of the cluster has ended once, the report of a former delivery, if there was one. */
  readonly report: () => RootsReport;
  readonly end: () => Promise<void>;
}

/**
 * Keeps the trust bundle of a CA in every namespace of a cluster, as the namespace controller of istiod
 * does. It never deletes anything.
 *
 * @param before The report of a former delivery from the same CA to the same places.
 */
export async function refreshRoots(
  trust: UpstreamTrust,
  places: RootPlaces,
  serverContext: ServerContext,
  before?: RootsReport,
): Promise<RefreshingRoots> {
  const { log, clock, pause } = serverContext;
  const ending = new AbortController();
  const { signal } = ending;
  const client = await openApiServer(places);
  const { configMap, clusterTrustBundles } = places;
  const { deliversCrls } = places;
  const crlMaps = deliversCrls
    ? new ConfigMapDelivery(client, ConfigMapName.ofCrls, log, signal, { digest })
    : undefined;
  const crls = crlMaps && createWork(trust.crls, [crlMaps]);
  let waiting = { pem: "", until: clock() };
  let crlsNow: NumberedBundle | undefined;
  const mayHave = (namespace: string, { pem }: NumberedBundle): boolean => {
    if (waiting.pem !== pem) waiting = { pem, until: addSeconds(clock(), crlSeconds) };
    return crlMaps?.holdsOther(namespace, crlsNow) !== true || clock() >= waiting.until;
  };
  /** After an outage the pauses between tries of CRLs may be longer than those of roots. */
  const beside = async (namespace: string, now: Date): Promise<void> => {
    if (crlsNow && crlMaps?.holdsOther(namespace, crlsNow) === true)
      await crlMaps.apply(namespace, crlsNow, now);
  };
  const deliveries = [
    ...(configMap === undefined
      ? []
      : [new ConfigMapDelivery(client, configMap, log, signal, { mayHave, beside, digest })]),
    ...clusterTrustBundles.map((each) => createClusterTrustBundle(client, each, log, signal)),
  ];
  const roots = createWork(deliversCrls ? trust.roots : trust.published.current, deliveries);
  // A root without its CRL has Envoy refuse what is under it. A CRL without its root does no harm.
  const latest = addSeconds(clock(), firstListSeconds);
  const deliver = async (): Promise<void> => {
    const both = [crls?.begin(), roots.begin()];
    crlsNow = trust.crls();
    if (crls && !crls.hasAll() && clock() < latest) both.pop();
    for (const each of both) await each?.(clock());
  };
  const failed = (error: unknown): void => OperationLog.logFault(log, "delivery-failed", error);
  const delivering = Recurrence.start(deliver, deliverySeconds, failed, pause);
  return {
    report: () => {
      const works = crls ? [roots, crls] : [roots];
      if (before && !works.every(({ hasAll }) => hasAll())) return before;
      return crls ? together(roots.report(), crls.report()) : roots.report();
    },
    end: async () => {
      ending.abort();
      await delivering.end();
    },
  };
}

function createWork(
  current: () => NumberedBundle | undefined,
  deliveries: readonly RootDelivery[],
) {
  const progress = new DeliveryProgress(current, deliveries);
  return {
    report: () => progress.report(),
    hasAll: () => progress.hasAll(),
    /** @returns A function that delivers what is current now. */
    begin: () => {
      const content = current();
      return async (now: Date): Promise<void> => {
        if (content) await Promise.all(deliveries.map((each) => each.deliver(content, now)));
        progress.note(now);
      };
    },
  };
}

/** The report on roots, with that on CRLs. */
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
