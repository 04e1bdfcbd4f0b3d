import { hash } from "node:crypto";
import type { Registry } from "prom-client";
import * as z from "zod/mini";
import { parseForm } from "../../config/form.ts";
import { createClusterTrustBundle } from "../../delivery/cluster-trust-bundle.ts";
import { createConfigMapDelivery } from "../../delivery/config-map-delivery.ts";
import {
  DeliveryProgress,
  type RootDelivery,
  type RootsReport,
} from "../../delivery/root-delivery.ts";
import { logFault } from "../../foundation/events.ts";
import { crlConfigMap } from "../../kubernetes/root-config-map.ts";
import type { NumberedBundle } from "../../pki/authority/trust-bundle.ts";
import { addSeconds } from "../../pki/x509/validity.ts";
import { addReadGauge, unixTime } from "../../program/metrics.ts";
import { begin, type RunningProgram } from "../../program/program.ts";
import { recur } from "../../program/recurrence.ts";
import { ReplaceableWork } from "../../program/replaceable-work.ts";
import {
  type Environment,
  listenAddress,
  openApiServer,
  placeKeys,
  type RootPlaces,
  rootPlacesOf,
  upstreamKeys,
  upstreamPlaceOf,
} from "../files/places.ts";
import { type FollowingProgram, monitorWork, type ServerContext } from "../server.ts";
import { followUpstreamTrust, type UpstreamTrust } from "./upstream-trust.ts";

/** Keeps the trust bundle of a CA in every namespace of a cluster, and reports its progress. */
export function distribute(
  configuration: DistributeConfiguration,
  context: ServerContext,
): Promise<RunningProgram<DistributeConfiguration>> {
  return begin(context, async (program) => {
    const work = await ReplaceableWork.open(configuration, (next, before?: Delivery) =>
      beginDelivery(next, program, before),
    );
    program.life.endsWith("the delivery of roots", work.end);
    const readiness = (): RootsReport => {
      const { report, trust } = work.current();
      const now = report();
      return { ...now, reasons: [...now.reasons, ...trust.published.faults()] };
    };
    addRootGauges(program.registry, { report: readiness });
    const { monitoringListen: listen } = configuration;
    const readyWhen = "1 when every place has the trust bundle.";
    const monitored = await monitorWork(program, { listen, readiness, readyWhen });
    return { ...monitored, reconfigure: work.reconfigure };
  });
}

interface Delivery extends RefreshingRoots {
  readonly trust: UpstreamTrust;
}

async function beginDelivery(
  configuration: DistributeConfiguration,
  context: ServerContext,
  before: Delivery | undefined,
): Promise<Delivery> {
  await using starting = new AsyncDisposableStack();
  const trust = await followUpstreamTrust(configuration, context, before?.trust);
  starting.defer(trust.end);
  const roots = await refreshRoots(trust, configuration.places, context);
  starting.defer(roots.end);
  const begun = starting.move();
  return { report: roots.report, trust, end: () => begun.disposeAsync() };
}

const form = z.strictObject({
  ...upstreamKeys,
  ...placeKeys,
  MONITORING_LISTEN: z.prefault(listenAddress, ":15014"),
});

/** The names of all keys, in the order of the table in docs/how-to/distribute.md. */
export const distributeKeys: readonly string[] = Object.keys(form.shape);

/** The keys that count only after a restart. */
export const distributeRestartKeys: readonly string[] = ["MONITORING_LISTEN"];

/**
 * @param environment The variables by which a pod finds its API server.
 * @throws ConfigurationError
 */
export function parseDistributeConfiguration(
  values: Readonly<Record<string, unknown>>,
  environment: Environment,
) {
  const read = parseForm(form, values);
  return {
    ...upstreamPlaceOf(read),
    places: rootPlacesOf(read, environment),
    monitoringListen: read.MONITORING_LISTEN,
  };
}

export type DistributeConfiguration = Readonly<ReturnType<typeof parseDistributeConfiguration>>;

/** `rampart distribute`. */
export const distribution: FollowingProgram<DistributeConfiguration> = {
  keys: distributeKeys,
  restartKeys: distributeRestartKeys,
  parse: parseDistributeConfiguration,
  start: distribute,
};

const deliverySeconds = 0.25;

const digest = (pem: string): string => (pem === "" ? "" : hash("sha256", pem));

/** How long roots wait until it is known which CRLs the cluster holds. */
const firstListSeconds = 10;

/** How long new roots wait where a namespace does not get their CRLs. */
const crlSeconds = 60;

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
    ? createConfigMapDelivery(client, crlConfigMap, log, signal, { digest })
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
      : [createConfigMapDelivery(client, configMap, log, signal, { mayHave, beside, digest })]),
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
  const failed = (error: unknown): void => logFault(log, "delivery-failed", error);
  const delivering = recur(deliver, deliverySeconds, failed, pause);
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

export function addRootGauges(
  registry: Registry,
  { report }: Pick<RefreshingRoots, "report">,
): void {
  const gauge = (name: string, help: string, read: (now: RootsReport) => number) =>
    addReadGauge(registry, { name, help, read: () => read(report()) });
  gauge(
    "rampart_distribute_bundle_sequence",
    "The trust bundle that is being delivered.",
    ({ sequence }) => sequence ?? Number.NaN,
  );
  gauge(
    "rampart_distribute_delivered_since_timestamp",
    "When every place got the trust bundle, in Unix time.",
    ({ since }) => unixTime(since),
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
