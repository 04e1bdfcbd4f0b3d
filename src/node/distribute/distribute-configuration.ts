import * as z from "zod/mini";
import { parseForm } from "../../config/form.ts";
import { filePath } from "../../config/text-forms.ts";
import { baseUrl } from "../../foundation/text/base-url.ts";
import type { Environment } from "../files/api-server-place.ts";
import { placeKeys, type RootPlaces, rootPlacesOf } from "../files/root-places.ts";
import { type ListenAddress, listenAddress } from "../http/listen-address.ts";
import type { BundleSource } from "./upstream-bundle.ts";

/** The configuration of `rampart distribute`. */
export interface DistributeConfiguration extends BundleSource {
  readonly places: RootPlaces;
  readonly monitoringListen: ListenAddress;
}

const form = z.strictObject({
  UPSTREAM: baseUrl,
  UPSTREAM_CA_FILE: z.optional(filePath),
  ...placeKeys,
  MONITORING_LISTEN: z.prefault(listenAddress, ":15014"),
});

/** The names of all keys, in the order of the table in docs/distribute.md. */
export const distributeKeys: readonly string[] = Object.keys(form.shape);

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
    upstream: read.UPSTREAM,
    upstreamRootsFile: read.UPSTREAM_CA_FILE,
    places: rootPlacesOf(read, environment),
    monitoringListen: read.MONITORING_LISTEN,
  };
}
