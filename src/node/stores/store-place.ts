import * as z from "zod/mini";
import type { Propagation } from "../../config/configuration.ts";
import { AwsKeys } from "../../custody/key-service/aws-signature.ts";
import { DnsName } from "../../foundation/addresses.ts";
import { ConfigurationError } from "../../foundation/errors.ts";
import { baseUrl } from "../../foundation/text.ts";
import {
  type ApiServerPlace,
  apiServerKeys,
  apiServerPlaceOf,
  type Environment,
  filePath,
} from "../files/places.ts";
import { awsKeysInFile, awsKeysOf } from "../key-service/aws-credential.ts";

/** Where the records of `rampart serve` are stored. */
export type StorePlace = DirectoryPlace | NamespacePlace | BucketPlace;

interface DirectoryPlace {
  readonly kind: "directory";
  readonly directory: string;
}

/** A store in the Secrets of a namespace. */
export interface NamespacePlace {
  readonly kind: "kubernetes";
  readonly namespace: string;
  /** `undefined` outside of a cluster, if the configuration names no API server. */
  readonly apiServer: ApiServerPlace | undefined;
}

const namespace = z
  .string()
  .check(z.regex(DnsName.label, "must be the name of a namespace, such as rampart-store"));

const bucketName = z
  .string()
  .check(z.regex(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, "must be the name of a bucket"));

const prefix = z
  .string()
  .check(
    z.maxLength(128),
    z.regex(
      /^(?:[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?\/)+$/,
      "must be a path in lower case with a slash at its end, such as mesh-1/",
    ),
  );

const region = z
  .string()
  .check(z.regex(/^[a-z0-9-]{1,64}$/, "must be a region, such as eu-central-1"));

/** The keys of a store in a bucket. docs/reference/configuration.md describes them. */
export const bucketKeys = {
  STORE_BUCKET: z.optional(bucketName),
  STORE_PREFIX: z.optional(prefix),
  S3_ENDPOINT: z.optional(baseUrl),
  S3_REGION: z.optional(region),
  S3_ADDRESSING: z.optional(z.enum(["path", "host"])),
  S3_CA_FILE: z.optional(filePath),
  S3_CREDENTIALS_FILE: z.optional(filePath),
};

const logStore = z
  .string()
  .check(
    z.maxLength(192),
    z.regex(
      /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]\/(?:[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?\/)*$/,
      "must be a bucket and perhaps a path in it, with a slash at the end, such as mesh-log/mesh-1/",
    ),
  );

type Kind = StorePlace["kind"];

/** The keys about the store. docs/reference/configuration.md describes them. */
export const storeKeys = {
  STORE: z._default(z.enum(["directory", "kubernetes", "s3"]), "directory"),
  STORE_DIRECTORY: z.optional(filePath),
  STORE_NAMESPACE: z.optional(namespace),
  ...apiServerKeys,
  ...bucketKeys,
  LOG_STORE: z.optional(logStore),
};

type StoreValues = z.infer<z.ZodMiniObject<typeof storeKeys>>;

/** The keys of each kind of store beside the one that it requires. */
const keysOf = {
  directory: { required: "STORE_DIRECTORY", others: [] },
  kubernetes: { required: "STORE_NAMESPACE", others: Object.keys(apiServerKeys) },
  s3: { required: "STORE_BUCKET", others: Object.keys(bucketKeys) },
} as const satisfies Record<Kind, { required: keyof StoreValues; others: readonly string[] }>;

/** The keys about the service of a bucket, which a log in a bucket needs as well. */
const serviceKeys = Object.keys(bucketKeys).filter((key) => key.startsWith("S3_"));

/**
 * The minimum and the default of `PROPAGATION_INTERVAL` by the kind of store. A file is visible as soon as it is
 * written; a process may notice late that a bucket or an API server does not answer.
 */
export const propagationOf: Readonly<Record<Kind, Propagation>> = {
  directory: { shortestSeconds: 1, usual: "5s" },
  kubernetes: { shortestSeconds: 10, usual: "2m" },
  s3: { shortestSeconds: 10, usual: "2m" },
};

/** The kind of store that the values choose; `directory` for any unknown one. */
export function storeKindOf({ STORE }: Readonly<Record<string, unknown>>): Kind {
  return STORE === "kubernetes" || STORE === "s3" ? STORE : "directory";
}

/**
 * The place of the store. A key of another kind of store is a fault.
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
  const ofLog = values.LOG_STORE === undefined ? [] : serviceKeys;
  const faults = Object.entries(keysOf).flatMap(([other, { required, others }]) =>
    [...new Set([required, ...others])].flatMap((key) =>
      other !== kind && given.includes(key) && !ofLog.includes(key)
        ? [`${key}: is for STORE = "${other}" alone`]
        : [],
    ),
  );
  const { required } = keysOf[kind];
  if (values[required] === undefined) faults.push(`${required}: is required`);
  if (faults.length > 0) throw new ConfigurationError(faults);
  if (kind === "directory") return { kind, directory: values.STORE_DIRECTORY ?? "" };
  if (kind === "s3") return bucketPlaceOf(values, environment);
  const { KUBERNETES_SERVICE_HOST: host } = environment;
  const isReachable = values.KUBERNETES_SERVER !== undefined || Boolean(host);
  const apiServer = isReachable ? apiServerPlaceOf(values, environment) : undefined;
  return { kind, namespace: values.STORE_NAMESPACE ?? "", apiServer };
}

type BucketValues = z.infer<z.ZodMiniObject<typeof bucketKeys>>;

/** The region that services other than AWS accept. */
const regionOfOthers = "us-east-1";

/**
 * Reads where a store's bucket is. Its credentials are in a file or the environment; without `S3_ENDPOINT` they may also
 * be those of an AWS instance.
 * @param environment The variables of AWS's tools, which may have the credential.
 * @throws ConfigurationError with every error.
 */
export function bucketPlaceOf(values: BucketValues, environment: Environment) {
  const { STORE_BUCKET: bucket = "", S3_REGION: given, S3_ENDPOINT: endpoint } = values;
  // The keys of an AWS instance, with a session token, must not be sent to any other service.
  const others = endpoint === undefined ? {} : { AWS_EC2_METADATA_DISABLED: "true" };
  const credentials =
    values.S3_CREDENTIALS_FILE === undefined
      ? awsKeysOf({ ...environment, ...others })
      : awsKeysInFile(values.S3_CREDENTIALS_FILE);
  const faults = [
    ...(given === undefined && endpoint === undefined
      ? ["S3_REGION: is required without S3_ENDPOINT"]
      : []),
    ...(credentials
      ? []
      : [
          "S3_CREDENTIALS_FILE: is required without AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a role, in the environment",
        ]),
  ];
  if (faults.length > 0 || !credentials) throw new ConfigurationError(faults);
  return {
    kind: "s3" as const,
    bucket,
    /** Empty, or with a slash at its end. */
    prefix: values.STORE_PREFIX ?? "",
    url: bucketUrl(values),
    region: given ?? regionOfOthers,
    rootsFile: values.S3_CA_FILE,
    credentials,
  };
}

/**
 * The bucket and prefix of an issuance log: `LOG_STORE`, else beside the records in the store's bucket. `undefined`
 * without an origin. Also `undefined` for a store in a directory without `LOG_STORE`: its log is in the directory.
 *
 * @throws ConfigurationError as {@link bucketPlaceOf}, for `LOG_STORE` without `LOG_ORIGIN`, and without `LOG_STORE` for
 *   a store in Kubernetes or in a bucket without a prefix.
 */
export function logPlaceOf(
  { LOG_STORE, ...values }: BucketValues & Pick<StoreValues, "LOG_STORE">,
  store: StorePlace,
  origin: string | undefined,
  environment: Environment,
): BucketPlace | undefined {
  const refuse = (fault: string): never => {
    throw new ConfigurationError([fault]);
  };
  if (origin === undefined) {
    return LOG_STORE === undefined ? undefined : refuse("LOG_STORE: is for LOG_ORIGIN alone");
  }
  const name = `${Buffer.from(origin).toString("hex")}/`;
  if (LOG_STORE !== undefined) {
    const [STORE_BUCKET = "", ...path] = LOG_STORE.split("/");
    return bucketPlaceOf(
      { ...values, STORE_BUCKET, STORE_PREFIX: path.join("/") + name },
      environment,
    );
  }
  if (store.kind === "directory") return undefined;
  if (store.kind === "kubernetes")
    return refuse("LOG_STORE: is required beside LOG_ORIGIN, such as mesh-log/mesh-1/");
  // A store without a prefix has the whole bucket, so the log would be within it.
  if (store.prefix === "")
    return refuse("LOG_ORIGIN: needs STORE_PREFIX, such as mesh-1/, or LOG_STORE");
  return { ...store, prefix: `${store.prefix.slice(0, -1)}-log/${name}` };
}

/** A bucket with its credentials, and the prefix of the objects in it. */
export type BucketPlace = Readonly<ReturnType<typeof bucketPlaceOf>>;

/** The URL of a bucket. AWS expects the bucket in the host name; other services accept it in the path. */
function bucketUrl(values: BucketValues): string {
  const { STORE_BUCKET: bucket = "", S3_REGION: given, S3_ENDPOINT: endpoint } = values;
  const service = endpoint ?? `https://s3.${given}.${AwsKeys.domain(given)}`;
  // A certificate for *.s3.… does not cover a name with another dot.
  const usual = endpoint === undefined && !bucket.includes(".") ? "host" : "path";
  if ((values.S3_ADDRESSING ?? usual) === "path") return `${service}/${bucket}`;
  return service.replace("://", `://${bucket}.`);
}
