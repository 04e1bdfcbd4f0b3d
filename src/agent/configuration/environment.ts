import * as z from "zod/mini";
import { ConfigurationError } from "../../foundation/configuration-error.ts";
import { parsedText } from "../../foundation/text/parsed-text.ts";
import { parseSocketAddress, type SocketAddress } from "../../foundation/text/socket-address.ts";
import { inEnglish } from "../../foundation/text/zod-english.ts";
import { parseTrustDomain, type TrustDomain } from "../../pki/spiffe-id.ts";
import { goBoolean, goDuration, goNumber } from "./go-values.ts";
import { type ProxyConfig, proxyConfig } from "./proxy-config.ts";
import { port } from "./readiness-probe.ts";

/** The environment variables of a process. */
export type Environment = Readonly<Record<string, string | undefined>>;

const text = (otherwise: string) => z._default(z.string(), otherwise);
const optionalText = z.optional(z.string());
const flag = (otherwise: "true" | "false" = "false") => z.prefault(goBoolean, otherwise);
const duration = (otherwise: string) => z.prefault(goDuration, otherwise);

/** A timer fires at once when it is set for longer than 2^31 - 1 ms. */
const timerDuration = (otherwise: string) =>
  z.prefault(
    z.pipe(goDuration, z.number().check(z.maximum(2 ** 31 - 1, "must not exceed 596h"))),
    otherwise,
  );

const number = (otherwise: string) => z.prefault(goNumber, otherwise);

const trustDomain = parsedText(
  parseTrustDomain,
  "must be a trust domain: lower-case letters, digits, dots, dashes",
);

const address = parsedText(parseSocketAddress, "must be <host>:<port> or [<IPv6 address>]:<port>");

/**
 * The variables that the agent reads. Names without RAMPART_ are pilot-agent's and have its meanings.
 * Durations are in milliseconds.
 */
export interface Variables {
  readonly CA_ADDR?: string | undefined;
  readonly CA_ROOT_CA?: string | undefined;
  readonly CA_PROVIDER: string;
  readonly CREDENTIAL_FETCHER_TYPE: string;
  readonly ISTIOD_SAN?: string | undefined;
  readonly PILOT_CERT_PROVIDER: string;
  readonly PROXY_CONFIG: ProxyConfig;
  readonly DISCOVERY_ADDRESS?: string | undefined;
  readonly XDS_ROOT_CA?: string | undefined;
  readonly ISTIO_DELTA_XDS: boolean;
  readonly REWRITE_PROBE_LEGACY_LOCALHOST_DESTINATION: boolean;
  readonly ENVOY_STATUS_PORT: number;
  readonly ENVOY_PROMETHEUS_PORT: number;
  readonly ISTIO_BOOTSTRAP_OVERRIDE?: string | undefined;
  /** Processors, rounded up. */
  readonly ISTIO_CPU_LIMIT: number;
  readonly PROV_CERT?: string | undefined;
  readonly FILE_MOUNTED_CERTS: boolean;
  readonly FILE_DEBOUNCE_DURATION: number;
  readonly OUTPUT_CERTS?: string | undefined;
  readonly SECRET_TTL: number;
  readonly SECRET_GRACE_PERIOD_RATIO: number;
  readonly SECRET_GRACE_PERIOD_RATIO_JITTER: number;
  readonly WORKLOAD_RSA_KEY_SIZE?: number | undefined;
  readonly ECC_SIGNATURE_ALGORITHM?: "ECDSA" | undefined;
  readonly ECC_CURVE: string;
  readonly PKCS8_KEY: boolean;
  readonly TRUST_DOMAIN: TrustDomain;
  readonly POD_NAMESPACE: string;
  readonly SERVICE_ACCOUNT: string;
  readonly POD_NAME: string;
  readonly INSTANCE_IP: string;
  /** Seconds, as in Istio. */
  readonly TERMINATION_DRAIN_DURATION_SECONDS?: number | undefined;
  readonly EXIT_ON_ZERO_ACTIVE_CONNECTIONS: boolean;
  readonly MINIMUM_DRAIN_DURATION: number;
  readonly ISTIO_META_CLUSTER_ID: string;
  readonly ISTIO_META_CERT_SIGNER: string;
  readonly ISTIO_META_TLS_CLIENT_ROOT_CERT?: string | undefined;
  readonly ISTIO_META_TLS_CLIENT_KEY?: string | undefined;
  readonly ISTIO_META_TLS_CLIENT_CERT_CHAIN?: string | undefined;
  readonly PILOT_ENABLE_CA_CRL: boolean;
  readonly KUBERNETES_SERVICE_HOST?: string | undefined;
  readonly RAMPART_TOKEN_FILE: string;
  readonly RAMPART_BUNDLE_URL?: string | undefined;
  readonly RAMPART_BUNDLE_REFRESH: number;
  readonly RAMPART_CRL_URL?: string | undefined;
  readonly RAMPART_FEDERATED_BUNDLES: string;
  readonly RAMPART_FEDERATED_ROOT_CA?: string | undefined;
  readonly RAMPART_SDS_SOCKET: string;
  readonly RAMPART_XDS_SOCKET?: string | undefined;
  readonly RAMPART_WORKLOAD_API_SOCKET?: string | undefined;
  readonly RAMPART_STATUS_ADDR: SocketAddress;
  readonly RAMPART_WORKLOADS?: string | undefined;
  readonly RAMPART_LINGER: number;
  readonly RAMPART_OUTPUT_ATOMIC: boolean;
  readonly RAMPART_OUTPUT_OWNER?: string | undefined;
  readonly RAMPART_SERVING_CERTS?: string | undefined;
  readonly RAMPART_ON_CHANGE?: string | undefined;
  readonly RAMPART_CACHE?: string | undefined;
  readonly RAMPART_CACHE_KEY_FILE?: string | undefined;
}

const form = z.object({
  CA_ADDR: optionalText,
  CA_ROOT_CA: optionalText,
  CA_PROVIDER: z._default(z.enum(["Citadel"]), "Citadel"),
  CREDENTIAL_FETCHER_TYPE: z._default(z.enum(["JWT"]), "JWT"),
  ISTIOD_SAN: optionalText,
  PILOT_CERT_PROVIDER: text("istiod"),
  PROXY_CONFIG: z.prefault(proxyConfig, ""),
  DISCOVERY_ADDRESS: optionalText,
  XDS_ROOT_CA: optionalText,
  ISTIO_DELTA_XDS: flag("true"),
  REWRITE_PROBE_LEGACY_LOCALHOST_DESTINATION: flag(),
  ENVOY_STATUS_PORT: z._default(port, 15_021),
  ENVOY_PROMETHEUS_PORT: z._default(port, 15_090),
  ISTIO_BOOTSTRAP_OVERRIDE: optionalText,
  ISTIO_CPU_LIMIT: z.prefault(z.pipe(goNumber, z.int().check(z.minimum(0), z.maximum(4096))), "0"),
  PROV_CERT: optionalText,
  FILE_MOUNTED_CERTS: flag(),
  FILE_DEBOUNCE_DURATION: timerDuration("100ms"),
  OUTPUT_CERTS: optionalText,
  SECRET_TTL: duration("24h"),
  SECRET_GRACE_PERIOD_RATIO: number("0.55"),
  SECRET_GRACE_PERIOD_RATIO_JITTER: number("0.05"),
  WORKLOAD_RSA_KEY_SIZE: z.optional(z.pipe(goNumber, z.int().check(z.maximum(8192)))),
  ECC_SIGNATURE_ALGORITHM: z.optional(z.enum(["ECDSA"])),
  ECC_CURVE: text("P256"),
  PKCS8_KEY: flag(),
  TRUST_DOMAIN: z.prefault(trustDomain, "cluster.local"),
  POD_NAMESPACE: text(""),
  SERVICE_ACCOUNT: text(""),
  POD_NAME: text(""),
  INSTANCE_IP: text("127.0.0.1"),
  TERMINATION_DRAIN_DURATION_SECONDS: z.optional(
    z.pipe(goNumber, z.number().check(z.minimum(0), z.maximum(3600))),
  ),
  EXIT_ON_ZERO_ACTIVE_CONNECTIONS: flag(),
  MINIMUM_DRAIN_DURATION: timerDuration("5s"),
  ISTIO_META_CLUSTER_ID: text("Kubernetes"),
  ISTIO_META_CERT_SIGNER: text(""),
  ISTIO_META_TLS_CLIENT_ROOT_CERT: optionalText,
  ISTIO_META_TLS_CLIENT_KEY: optionalText,
  ISTIO_META_TLS_CLIENT_CERT_CHAIN: optionalText,
  PILOT_ENABLE_CA_CRL: flag("true"),
  KUBERNETES_SERVICE_HOST: optionalText,
  RAMPART_TOKEN_FILE: text("./var/run/secrets/tokens/istio-token"),
  RAMPART_BUNDLE_URL: optionalText,
  RAMPART_BUNDLE_REFRESH: duration("24h"),
  RAMPART_CRL_URL: optionalText,
  RAMPART_FEDERATED_BUNDLES: text(""),
  RAMPART_FEDERATED_ROOT_CA: optionalText,
  RAMPART_SDS_SOCKET: text("./var/run/secrets/workload-spiffe-uds/socket"),
  RAMPART_XDS_SOCKET: optionalText,
  RAMPART_WORKLOAD_API_SOCKET: optionalText,
  RAMPART_STATUS_ADDR: z.prefault(address, "127.0.0.1:15020"),
  RAMPART_WORKLOADS: optionalText,
  RAMPART_LINGER: timerDuration("1m"),
  RAMPART_OUTPUT_ATOMIC: flag(),
  RAMPART_OUTPUT_OWNER: z.optional(
    z.string().check(z.regex(/^\d{1,9}:\d{1,9}$/, "must be uid:gid")),
  ),
  RAMPART_SERVING_CERTS: optionalText,
  RAMPART_ON_CHANGE: optionalText,
  RAMPART_CACHE: optionalText,
  RAMPART_CACHE_KEY_FILE: optionalText,
});

const variables: z.ZodMiniType<Variables> = form;

/** The names of all {@link Variables}. */
export const variableNames: readonly string[] = Object.keys(form.shape);

/**
 * Parses the variables. An empty one counts as unset: manifests have `value: ""` for what nobody chose.
 *
 * @throws ConfigurationError with one line for each fault.
 */
export function parseVariables(environment: Environment): Variables {
  const given = Object.entries(environment).filter(([, value]) => value !== "");
  const parsed = variables.safeParse(Object.fromEntries(given), inEnglish);
  if (parsed.success) return parsed.data;
  throw new ConfigurationError(
    parsed.error.issues.map(({ path, message }) => `${path.join(".")}: ${message}`),
  );
}

/** The variables whose names begin so, without that beginning. */
export function variablesWithPrefix(
  environment: Environment,
  prefix: string,
): Readonly<Record<string, string>> {
  const named = Object.entries(environment).filter(([name]) => name.startsWith(prefix));
  return Object.fromEntries(named.map(([name, value]) => [name.slice(prefix.length), value ?? ""]));
}
