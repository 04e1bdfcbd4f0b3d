import * as z from "zod/mini";
import { ConfigurationForm } from "../../config/form.ts";
import { ConfigurationError } from "../../foundation/errors.ts";
import {
  accessKeys,
  type Environment,
  placeKeys,
  rootPlacesOf,
  upstreamAccessOf,
} from "../files/places.ts";
import { certificateFilesOf, servingKeys } from "../serving-keys.ts";

const schema = z.strictObject({
  ...accessKeys,
  ...servingKeys,
  DELIVER_ROOTS: z._default(z.boolean(), false),
  READY_WITH_ROOTS: z._default(z.boolean(), false),
  ...placeKeys,
});

/** Parses the configuration of `rampart gateway`. */
export const GatewayConfiguration = {
  /** The names of all keys, in the order of the table in docs/how-to/gateway.md. */
  keys: Object.keys(schema.shape),

  /** The keys whose changes only a restart applies: those of ports, and of what metrics show. */
  restartKeys: ["TRUST_DOMAIN", "LISTEN", "MONITORING_LISTEN", "DIAGNOSTIC_RPCS", "DELIVER_ROOTS"],

  /**
   * Parses the configuration of the gateway.
   * @param environment Where a pod finds its API server.
   * @throws ConfigurationError with every error.
   */
  parse(values: Readonly<Record<string, unknown>>, environment: Environment = {}) {
    const read = ConfigurationForm.parse(schema, values);
    return {
      ...upstreamAccessOf(read),
      ...ConfigurationForm.together({
        certificateFiles: () => certificateFilesOf(read),
        /** Where in its cluster the gateway delivers the CA's roots. */
        rootPlaces: () => (read.DELIVER_ROOTS ? rootPlacesOf(read, environment) : undefined),
        isReadyWithRoots: () => {
          if (read.DELIVER_ROOTS || !read.READY_WITH_ROOTS) return read.READY_WITH_ROOTS;
          throw new ConfigurationError([
            "READY_WITH_ROOTS: must not be true without DELIVER_ROOTS",
          ]);
        },
      }),
      listen: read.LISTEN,
      monitoringListen: read.MONITORING_LISTEN,
      diagnosticRpcs: read.DIAGNOSTIC_RPCS,
      limits: read.LIMITS,
    };
  },
};

/** The configuration of `rampart gateway`. Its only secret, a token, is in a file. */
export type GatewayConfiguration = Readonly<ReturnType<typeof GatewayConfiguration.parse>>;
