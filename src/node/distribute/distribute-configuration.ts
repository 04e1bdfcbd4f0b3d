import * as z from "zod/mini";
import { parseForm } from "../../config/form.ts";
import {
  type Environment,
  placeKeys,
  type RootPlaces,
  rootPlacesOf,
} from "../files/cluster-place.ts";
import { type UpstreamPlace, upstreamKeys, upstreamPlaceOf } from "../files/upstream-place.ts";
import { type ListenAddress, listenAddress } from "../http/listen-address.ts";

/** The configuration of `rampart distribute`. */
export interface DistributeConfiguration extends UpstreamPlace {
  readonly places: RootPlaces;
  readonly monitoringListen: ListenAddress;
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
): DistributeConfiguration {
  const read = parseForm(form, values);
  return {
    ...upstreamPlaceOf(read),
    places: rootPlacesOf(read, environment),
    monitoringListen: read.MONITORING_LISTEN,
  };
}
