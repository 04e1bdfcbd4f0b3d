import * as z from "zod/mini";
import { parseForm } from "../../config/form.ts";
import type { RootsReport } from "../../delivery/root-delivery.ts";
import { begin, type RunningProgram } from "../../program/program.ts";
import { ReplaceableWork } from "../../program/replaceable-work.ts";
import { type Environment, placeKeys, rootPlacesOf } from "../files/cluster-place.ts";
import { upstreamKeys, upstreamPlaceOf } from "../files/upstream-place.ts";
import { listenAddress } from "../http/listen-address.ts";
import { monitorWork, type ServerContext } from "../server.ts";
import { addRootGauges, type RefreshingRoots, refreshRoots } from "./refreshing-roots.ts";
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
    const readiness = (): RootsReport => work.current().report();
    addRootGauges(program.registry, { report: readiness });
    const { monitoringListen: listen } = configuration;
    const readyWhen = "1 when every place has the trust bundle.";
    const monitored = await monitorWork(program, { listen, readiness, readyWhen });
    return { ...monitored, reconfigure: work.reconfigure };
  });
}

/** The delivery of one configuration. */
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
