import * as z from "zod/mini";
import type { Propagation } from "../../config/configuration.ts";
import { filePath } from "../../config/form.ts";
import { dnsLabel } from "../../foundation/addresses.ts";
import { ConfigurationError } from "../../foundation/errors.ts";
import {
  type ApiServerPlace,
  apiServerKeys,
  apiServerPlaceOf,
  type Environment,
} from "../files/places.ts";
import { type BucketPlace, bucketKeys, bucketPlaceOf } from "./bucket-place.ts";

/** Where the records of `rampart serve` rest. */
export type StorePlace = DirectoryPlace | NamespacePlace | BucketPlace;

interface DirectoryPlace {
  readonly kind: "directory";
  readonly directory: string;
}

export interface NamespacePlace {
  readonly kind: "kubernetes";
  readonly namespace: string;
  /** `undefined` outside of a cluster, where the configuration names no API server. */
  readonly apiServer: ApiServerPlace | undefined;
}

const namespace = z
  .string()
  .check(z.regex(dnsLabel, "must be the name of a namespace, such as rampart-store"));

type Kind = StorePlace["kind"];

/** The keys about the store. docs/reference/configuration.md describes them. */
export const storeKeys = {
  STORE: z._default(z.enum(["directory", "kubernetes", "s3"]), "directory"),
  STORE_DIRECTORY: z.optional(filePath),
  STORE_NAMESPACE: z.optional(namespace),
  ...apiServerKeys,
  ...bucketKeys,
};

type StoreValues = z.infer<z.ZodMiniObject<typeof storeKeys>>;

/** The keys of each kind of store, in which the first is required. */
const keysOf: Readonly<Record<Kind, readonly [keyof StoreValues, ...(keyof StoreValues)[]]>> = {
  directory: ["STORE_DIRECTORY"],
  kubernetes: [
    "STORE_NAMESPACE",
    "KUBERNETES_SERVER",
    "KUBERNETES_CA_FILE",
    "KUBERNETES_TOKEN_FILE",
  ],
  s3: [
    "STORE_BUCKET",
    "STORE_PREFIX",
    "S3_ENDPOINT",
    "S3_REGION",
    "S3_ADDRESSING",
    "S3_CA_FILE",
    "S3_CREDENTIALS_FILE",
  ],
};

/** A process sees a file as soon as it is written. Of a service, it may notice late that it is silent. */
export const propagationOf: Readonly<Record<Kind, Propagation>> = {
  directory: { shortestSeconds: 1, usual: "5s" },
  kubernetes: { shortestSeconds: 10, usual: "2m" },
  s3: { shortestSeconds: 10, usual: "2m" },
};

/** The kind of store that the values choose, as far as it is one. */
export function storeKindOf({ STORE }: Readonly<Record<string, unknown>>): Kind {
  return STORE === "kubernetes" || STORE === "s3" ? STORE : "directory";
}

/**
 * The place of the store.
 *
 * @param given The keys that the operator wrote.
 * @param environment The variables by which a pod finds its API server, and those of AWS's tools.
 * @throws ConfigurationError
 */
export function storePlaceOf(
  values: StoreValues,
  given: readonly string[],
  environment: Environment,
): StorePlace {
  const kind = values.STORE;
  const faults = Object.entries(keysOf).flatMap(([other, keys]) =>
    keys.flatMap((key) =>
      other !== kind && given.includes(key) ? [`${key}: is for STORE = "${other}" alone`] : [],
    ),
  );
  const [required] = keysOf[kind];
  if (values[required] === undefined) faults.push(`${required}: is required`);
  if (faults.length > 0) throw new ConfigurationError(faults);
  if (kind === "directory") return { kind, directory: values.STORE_DIRECTORY ?? "" };
  if (kind === "s3") return bucketPlaceOf(values, environment);
  const { KUBERNETES_SERVICE_HOST: host } = environment;
  const isReachable = values.KUBERNETES_SERVER !== undefined || Boolean(host);
  const apiServer = isReachable ? apiServerPlaceOf(values, environment) : undefined;
  return { kind, namespace: values.STORE_NAMESPACE ?? "", apiServer };
}
