import * as z from "zod/mini";
import { ConfigurationForm } from "../../config/form.ts";
import { Program, type RunningProgram } from "../../program/program.ts";
import {
  type Environment,
  listenAddress,
  placeKeys,
  rootPlacesOf,
  upstreamKeys,
  upstreamPlaceOf,
} from "../files/places.ts";
import { ReplaceableWork } from "../replaceable-work.ts";
import { type FollowingProgram, monitorWork, type ServerContext } from "../server.ts";
import type { RootsReport } from "./delivery-progress.ts";
import { addRootGauges, type RefreshingRoots, refreshRoots } from "./roots-delivery.ts";
import { followUpstreamTrust, type UpstreamTrust } from "./upstream-trust.ts";

/** Keeps the trust bundle of a CA in every namespace of a cluster, and reports its progress. */
export function distribute(
  configuration: DistributeConfiguration,
  context: ServerContext,
): Promise<RunningProgram<DistributeConfiguration>> {
  return Program.begin(context, async (program) => {
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

const schema = z.strictObject({
  ...upstreamKeys,
  ...placeKeys,
  MONITORING_LISTEN: z.prefault(listenAddress, ":15014"),
});

/** Parses the configuration of `rampart distribute`. */
export const DistributeConfiguration = {
  /** The names of all keys, in the order of the table in docs/how-to/distribute.md. */
  keys: Object.keys(schema.shape),

  /** The keys whose changes only a restart applies. */
  restartKeys: ["MONITORING_LISTEN"],

  /**
   * Parses the configuration of `rampart distribute`.
   * @param environment The variables by which a pod finds its API server.
   * @throws ConfigurationError with every error.
   */
  parse(values: Readonly<Record<string, unknown>>, environment: Environment) {
    const read = ConfigurationForm.parse(schema, values);
    return {
      ...upstreamPlaceOf(read),
      places: rootPlacesOf(read, environment),
      monitoringListen: read.MONITORING_LISTEN,
    };
  },
};

/** The parsed configuration of `rampart distribute`. */
export type DistributeConfiguration = Readonly<ReturnType<typeof DistributeConfiguration.parse>>;

/** `rampart distribute`. */
export const distribution: FollowingProgram<DistributeConfiguration> = {
  ...DistributeConfiguration,
  start: distribute,
};
