import * as z from "zod/mini";
import { filePath } from "../../../config/form.ts";
import { ConfigurationError } from "../../../foundation/errors.ts";
import { baseUrl } from "../../../foundation/text.ts";
import type { Environment } from "../../files/cluster-place.ts";
import { credentialsInEnvironment, credentialsInFile, type S3Credentials } from "./credentials.ts";

/** The objects of a bucket, or those whose names begin alike. */
export interface BucketPlace {
  readonly kind: "s3";
  readonly bucket: string;
  /** Empty, or with a slash at its end. */
  readonly prefix: string;
  /** The URL of the bucket; no slash at the end. */
  readonly url: string;
  readonly region: string;
  readonly rootsFile: string | undefined;
  readonly credentials: S3Credentials;
}

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
export const bucketKeys: {
  readonly STORE_BUCKET: z.ZodMiniOptional<z.ZodMiniString>;
  readonly STORE_PREFIX: z.ZodMiniOptional<z.ZodMiniString>;
  readonly S3_ENDPOINT: z.ZodMiniOptional<typeof baseUrl>;
  readonly S3_REGION: z.ZodMiniOptional<z.ZodMiniString>;
  readonly S3_ADDRESSING: z.ZodMiniOptional<z.ZodMiniEnum<{ path: "path"; host: "host" }>>;
  readonly S3_CA_FILE: z.ZodMiniOptional<z.ZodMiniString>;
  readonly S3_CREDENTIALS_FILE: z.ZodMiniOptional<z.ZodMiniString>;
} = {
  STORE_BUCKET: z.optional(bucketName),
  STORE_PREFIX: z.optional(prefix),
  S3_ENDPOINT: z.optional(baseUrl),
  S3_REGION: z.optional(region),
  S3_ADDRESSING: z.optional(z.enum(["path", "host"])),
  S3_CA_FILE: z.optional(filePath),
  S3_CREDENTIALS_FILE: z.optional(filePath),
};

type BucketValues = z.infer<z.ZodMiniObject<typeof bucketKeys>>;

/** R2 and MinIO take it for their own. */
const regionOfOthers = "us-east-1";

/**
 * @param environment The variables of AWS's tools, which may have the credential.
 * @throws ConfigurationError
 */
export function bucketPlaceOf(values: BucketValues, environment: Environment): BucketPlace {
  const { STORE_BUCKET: bucket = "", S3_REGION: given, S3_ENDPOINT: endpoint } = values;
  const credentials =
    values.S3_CREDENTIALS_FILE === undefined
      ? credentialsInEnvironment(environment)
      : credentialsInFile(values.S3_CREDENTIALS_FILE);
  const faults = [
    ...(given === undefined && endpoint === undefined
      ? ["S3_REGION: is required without S3_ENDPOINT"]
      : []),
    ...(credentials
      ? []
      : [
          "S3_CREDENTIALS_FILE: is required without AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment",
        ]),
  ];
  if (faults.length > 0 || !credentials) throw new ConfigurationError(faults);
  return {
    kind: "s3",
    bucket,
    prefix: values.STORE_PREFIX ?? "",
    url: bucketUrl(values),
    region: given ?? regionOfOthers,
    rootsFile: values.S3_CA_FILE,
    credentials,
  };
}

/** AWS wants the bucket in the name of the host; other services are sure to take it in the path. */
function bucketUrl(values: BucketValues): string {
  const { STORE_BUCKET: bucket = "", S3_REGION: given, S3_ENDPOINT: endpoint } = values;
  const service = endpoint ?? `https://s3.${given}.${suffixOf(given ?? "")}`;
  // A certificate for *.s3.… has no room for another dot.
  const usual = endpoint === undefined && !bucket.includes(".") ? "host" : "path";
  if ((values.S3_ADDRESSING ?? usual) === "path") return `${service}/${bucket}`;
  return service.replace("://", `://${bucket}.`);
}

const suffixOf = (region: string): string =>
  region.startsWith("cn-") ? "amazonaws.com.cn" : "amazonaws.com";
