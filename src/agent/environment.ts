import * as z from "zod";
import { parseTrustDomain, type TrustDomain } from "../pki/spiffe-id.ts";
import { ConfigurationError } from "./agent-fault.ts";
import { parseGoDuration } from "./go-duration.ts";

/** The variables of a process. */
export type Environment = Readonly<Record<string, string | undefined>>;

const isTrue = (text: string): boolean => text === "true" || text === "1";

const text = (otherwise: string) => z.string().default(otherwise);
const optionalText = z
  .string()
  .optional()
  .transform((value) => value || undefined);
const flag = z.enum(["true", "false", "1", "0", ""]).default("").transform(isTrue);

/** A duration of Go in milliseconds. */
const duration = (otherwise: string) =>
  z
    .string()
    .default(otherwise)
    .transform((value, context) => {
      const milliseconds = parseGoDuration(value);
      if (milliseconds !== undefined) return milliseconds;
      context.addIssue("must be a duration such as 24h, 90m or 100ms");
      return z.NEVER;
    });

const share = (otherwise: string) => z.coerce.number().min(0).max(1).default(Number(otherwise));

const trustDomain = z
  .string()
  .default("cluster.local")
  .transform((name, context): TrustDomain => {
    const parsed = parseTrustDomain(name);
    if (parsed) return parsed;
    context.addIssue("must be a trust domain: lower-case letters, digits, dots, dashes");
    return z.NEVER;
  });

const address = z
  .string()
  .default("127.0.0.1:15020")
  .transform((value, context) => {
    const [, host, port] = /^\[?([^\]]+)\]?:(\d{1,5})$/.exec(value) ?? [];
    if (host !== undefined && Number(port) < 65_536) return { host, port: Number(port) };
    context.addIssue("must be host:port");
    return z.NEVER;
  });

/**
 * What the agent reads of its environment. Names without RAMPART_ are pilot-agent's, with its
 * meanings; durations are in milliseconds.
 */
export interface Variables {
  readonly CA_ADDR: string | undefined;
  readonly CA_ROOT_CA: string | undefined;
  readonly CA_PROVIDER: string;
  readonly CREDENTIAL_FETCHER_TYPE: string;
  readonly ISTIOD_SAN: string | undefined;
  readonly PILOT_CERT_PROVIDER: string;
  readonly PROV_CERT: string | undefined;
  readonly FILE_MOUNTED_CERTS: boolean;
  readonly FILE_DEBOUNCE_DURATION: number;
  readonly OUTPUT_CERTS: string | undefined;
  readonly SECRET_TTL: number;
  readonly SECRET_GRACE_PERIOD_RATIO: number;
  readonly SECRET_GRACE_PERIOD_RATIO_JITTER: number;
  readonly WORKLOAD_RSA_KEY_SIZE?: number | undefined;
  readonly ECC_SIGNATURE_ALGORITHM: string;
  readonly ECC_CURVE: string;
  readonly PKCS8_KEY: boolean;
  readonly TRUST_DOMAIN: TrustDomain;
  readonly POD_NAMESPACE: string;
  readonly SERVICE_ACCOUNT: string;
  readonly POD_NAME: string;
  readonly INSTANCE_IP: string;
  /** Seconds, as in Istio. */
  readonly TERMINATION_DRAIN_DURATION_SECONDS: number;
  readonly ISTIO_META_CLUSTER_ID: string;
  readonly ISTIO_META_CERT_SIGNER: string;
  readonly PILOT_ENABLE_CA_CRL: boolean;
  readonly KUBERNETES_SERVICE_HOST: string | undefined;
  readonly RAMPART_TOKEN_FILE: string;
  readonly RAMPART_BUNDLE_URL: string | undefined;
  readonly RAMPART_BUNDLE_REFRESH: number;
  readonly RAMPART_FEDERATED_BUNDLES: string;
  readonly RAMPART_FEDERATED_ROOT_CA: string | undefined;
  readonly RAMPART_SDS_SOCKET: string;
  readonly RAMPART_WORKLOAD_API_SOCKET: string | undefined;
  readonly RAMPART_STATUS_ADDR: { readonly host: string; readonly port: number };
  readonly RAMPART_WORKLOADS: string | undefined;
  readonly RAMPART_LINGER: number;
  readonly RAMPART_OUTPUT_ATOMIC: boolean;
  readonly RAMPART_OUTPUT_OWNER?: string | undefined;
  readonly RAMPART_ON_CHANGE: string | undefined;
  readonly RAMPART_CACHE: string | undefined;
  readonly RAMPART_CACHE_KEY_FILE: string | undefined;
}

const variables: z.ZodType<Variables> = z.object({
  CA_ADDR: optionalText,
  CA_ROOT_CA: optionalText,
  CA_PROVIDER: z.enum(["Citadel", ""]).default("Citadel"),
  CREDENTIAL_FETCHER_TYPE: z.enum(["JWT", ""]).default("JWT"),
  ISTIOD_SAN: optionalText,
  PILOT_CERT_PROVIDER: text("istiod"),
  PROV_CERT: optionalText,
  FILE_MOUNTED_CERTS: flag,
  FILE_DEBOUNCE_DURATION: duration("100ms"),
  OUTPUT_CERTS: optionalText,
  SECRET_TTL: duration("24h"),
  SECRET_GRACE_PERIOD_RATIO: share("0.5"),
  SECRET_GRACE_PERIOD_RATIO_JITTER: share("0.01"),
  WORKLOAD_RSA_KEY_SIZE: z.coerce.number().int().max(8192).optional(),
  ECC_SIGNATURE_ALGORITHM: z.enum(["ECDSA", ""]).default(""),
  ECC_CURVE: text("P256"),
  PKCS8_KEY: flag,
  TRUST_DOMAIN: trustDomain,
  POD_NAMESPACE: text(""),
  SERVICE_ACCOUNT: text(""),
  POD_NAME: text(""),
  INSTANCE_IP: text("127.0.0.1"),
  TERMINATION_DRAIN_DURATION_SECONDS: z.coerce.number().min(0).max(3600).default(5),
  ISTIO_META_CLUSTER_ID: text("Kubernetes"),
  ISTIO_META_CERT_SIGNER: text(""),
  PILOT_ENABLE_CA_CRL: flag,
  KUBERNETES_SERVICE_HOST: optionalText,
  RAMPART_TOKEN_FILE: text("./var/run/secrets/tokens/istio-token"),
  RAMPART_BUNDLE_URL: optionalText,
  RAMPART_BUNDLE_REFRESH: duration("24h"),
  RAMPART_FEDERATED_BUNDLES: text(""),
  RAMPART_FEDERATED_ROOT_CA: optionalText,
  RAMPART_SDS_SOCKET: text("./var/run/secrets/workload-spiffe-uds/socket"),
  RAMPART_WORKLOAD_API_SOCKET: optionalText,
  RAMPART_STATUS_ADDR: address,
  RAMPART_WORKLOADS: optionalText,
  RAMPART_LINGER: duration("1m"),
  RAMPART_OUTPUT_ATOMIC: flag,
  RAMPART_OUTPUT_OWNER: z
    .string()
    .regex(/^\d{1,9}:\d{1,9}$/, "must be uid:gid")
    .optional(),
  RAMPART_ON_CHANGE: optionalText,
  RAMPART_CACHE: optionalText,
  RAMPART_CACHE_KEY_FILE: optionalText,
});

/** @throws ConfigurationError with one line for each fault. */
export function parseVariables(environment: Environment): Variables {
  const parsed = variables.safeParse(environment);
  if (parsed.success) return parsed.data;
  const lines = parsed.error.issues.map(({ path, message }) => `${path.join(".")}: ${message}`);
  throw new ConfigurationError(lines.join("\n"));
}
