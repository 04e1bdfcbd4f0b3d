import * as z from "zod/mini";
import { inEnglish } from "../../foundation/english.ts";
import { ConfigurationError } from "../../foundation/errors.ts";
import { SocketAddress } from "../../foundation/socket-address.ts";
import { Duration, parsedText } from "../../foundation/text.ts";
import { TrustDomain } from "../../pki/spiffe-id.ts";
import { CompliancePolicy } from "../../program/tls-policy.ts";
import { port, proxyConfig } from "./proxy-config.ts";

/** The spellings of `strconv.ParseBool`. */
const booleans: ReadonlyMap<string, boolean> = new Map([
  ...["1", "t", "T", "true", "TRUE", "True"].map((text) => [text, true] as const),
  ...["0", "f", "F", "false", "FALSE", "False"].map((text) => [text, false] as const),
]);

/** A boolean as Go reads it. */
export const goBoolean: z.ZodMiniType<boolean, string> = parsedText(
  (text) => booleans.get(text),
  "must be true or false",
);

const amount = String.raw`(?:\d+\.?\d*|\.\d+)`;
const durationPattern = new RegExp(String.raw`^\+?(?:${amount}(?:h|m|s|ms|us|µs|μs|ns))+$`);

/** Parses a duration in milliseconds, like `time.ParseDuration` in pilot-agent, but refuses negative ones. */
export const goDuration: z.ZodMiniType<number, string> = parsedText(
  parseGoDuration,
  "must be a duration such as 24h, 1h30m or 100ms",
);

function parseGoDuration(text: string): number | undefined {
  if (/^\+?0$/.test(text)) return 0;
  return durationPattern.test(text) ? Duration.sum(text) : undefined;
}

const decimal = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/;

/** A decimal number as Go reads it. */
export const goNumber: z.ZodMiniType<number, string> = parsedText((text) => {
  const value = decimal.test(text) ? Number(text) : Number.NaN;
  return Number.isFinite(value) ? value : undefined;
}, "must be a number");

/** The variables of the process's environment. */
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
  TrustDomain.parse,
  "must be a trust domain: lower-case letters, digits, dots, dashes",
);

/** An address to listen on. In `:<port>` the host is empty and means every address of the machine. */
const listenAddress = parsedText((text) => {
  const parsed = SocketAddress.parseListening(text);
  return parsed && { host: "", ...parsed };
}, "must be <host>:<port>, [<IPv6 address>]:<port> or :<port>");

/** The longest path in `sockaddr_un` on Linux, without the octet that ends it. */
const longestSocketPath = 107;

/** The path of a Unix socket, also as gRPC and SPIFFE write it: `unix:///run/sds`. */
const socketPath = z.pipe(
  z.string(),
  z.transform((given: string, { issues }) => {
    const path = given.replace(/^unix:(?:\/\/(?=\/))?/, "");
    if (path !== "" && !path.startsWith("//") && Buffer.byteLength(path) <= longestSocketPath)
      return path;
    const message = `must be a path, or unix:// with an absolute one, of at most ${longestSocketPath} octets`;
    issues.push({ code: "custom", message, input: given });
    return z.NEVER;
  }),
);

const schema = z.object({
  CA_ADDR: optionalText,
  CA_ROOT_CA: optionalText,
  CA_PROVIDER: z._default(z.enum(["Citadel"]), "Citadel"),
  CREDENTIAL_FETCHER_TYPE: z._default(z.enum(["JWT", "GoogleComputeEngine"]), "JWT"),
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
  /** Processors, rounded up. */
  ISTIO_CPU_LIMIT: z.prefault(z.pipe(goNumber, z.int().check(z.minimum(0), z.maximum(4096))), "0"),
  PROV_CERT: optionalText,
  COMPLIANCE_POLICY: z._default(z.enum(CompliancePolicy.all), ""),
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
  /** Seconds, as in Istio. */
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
  ACTIONS_ID_TOKEN_REQUEST_URL: optionalText,
  ACTIONS_ID_TOKEN_REQUEST_TOKEN: optionalText,
  RAMPART_TOKEN_SOURCE: optionalText,
  RAMPART_TOKEN_AUDIENCE: optionalText,
  RAMPART_TOKEN_FILE: text("./var/run/secrets/tokens/istio-token"),
  RAMPART_BUNDLE_URL: optionalText,
  RAMPART_BUNDLE_REFRESH: duration("24h"),
  RAMPART_CRL_URL: optionalText,
  RAMPART_FEDERATED_BUNDLES: text(""),
  RAMPART_FEDERATED_ROOT_CA: optionalText,
  RAMPART_SDS_SOCKET: z.prefault(socketPath, "./var/run/secrets/workload-spiffe-uds/socket"),
  RAMPART_XDS_SOCKET: z.optional(socketPath),
  RAMPART_WORKLOAD_API_SOCKET: z.optional(socketPath),
  RAMPART_STATUS_ADDR: z.prefault(listenAddress, "127.0.0.1:15020"),
  RAMPART_WORKLOADS: optionalText,
  RAMPART_LINGER: timerDuration("1m"),
  RAMPART_OUTPUT_ATOMIC: flag(),
  RAMPART_OUTPUT_OWNER: z.optional(
    z.string().check(z.regex(/^\d{1,9}:\d{1,9}$/, "must be uid:gid")),
  ),
  RAMPART_SERVING_CERTS: optionalText,
  RAMPART_JWT_FILES: text(""),
  RAMPART_ON_CHANGE: optionalText,
  RAMPART_CACHE: optionalText,
  RAMPART_CACHE_KEY_FILE: optionalText,
});

/**
 * The variables that the agent reads. Names without RAMPART_ are pilot-agent's and have its meanings.
 * Durations are in milliseconds.
 */
export type Variables = Readonly<z.output<typeof schema>>;

/** The names of all {@link Variables}. */
export const variableNames: readonly string[] = Object.keys(schema.shape);

/**
 * Parses the variables. An empty one counts as unset, because manifests have `value: ""` for a value that was not
 * chosen.
 *
 * @throws ConfigurationError with one line for each error.
 */
export function parseVariables(environment: Environment): Variables {
  const given = Object.entries(environment).filter(([, value]) => value !== "");
  const parsed = schema.safeParse(Object.fromEntries(given), inEnglish);
  if (parsed.success) return parsed.data;
  throw new ConfigurationError(
    parsed.error.issues.map(({ path, message }) => `${path.join(".")}: ${message}`),
  );
}

/** The variables whose names begin with a prefix, by the rest of their names; `undefined` becomes an empty text. */
export function variablesWithPrefix(
  environment: Environment,
  prefix: string,
): Readonly<Record<string, string>> {
  const named = Object.entries(environment).filter(([name]) => name.startsWith(prefix));
  return Object.fromEntries(named.map(([name, value]) => [name.slice(prefix.length), value ?? ""]));
}

/** A variable that is set but has no effect here, for the log or a fault. */
export interface MissedVariable {
  readonly name: string;
  /** The missing feature, as the end of a sentence. */
  readonly why: string;
}

const noDns = "the agent has no DNS server, and a workload whose DNS is redirected to it has none";
const noMetrics = "the agent serves no metrics of the workload, and none over TLS";
const noWasm = "the agent fetches no Wasm modules";

/**
 * The variables of pilot-agent that have no effect here, with the missing feature. The agent refuses to start if the
 * lack of the feature would harm the workload.
 */
export const unsupportedVariables = {
  refused: {
    ISTIO_KUBE_APP_PROBERS: "the agent does not answer probes in the workload's place",
    ISTIO_META_DNS_CAPTURE: noDns,
    ISTIO_META_ENABLE_DNS_SERVER: noDns,
    WORKLOAD_IDENTITY_SOCKET_FILE:
      "the agent uses no other SDS server; RAMPART_SDS_SOCKET names its own socket",
    XDS_AUTH_PROVIDER: "the agent has no token but that of RAMPART_TOKEN_SOURCE",
  },
  ignored: {
    ENVOY_SECURE_METRICS_PORT: noMetrics,
    ENVOY_SECURE_MERGED_METRICS_PORT: noMetrics,
    ISTIO_PROMETHEUS_ANNOTATIONS: noMetrics,
    GRPC_XDS_BOOTSTRAP: "the agent writes no bootstrap for gRPC without a proxy",
    ISTIO_BOOTSTRAP: "rampart agent bootstrap prints the bootstrap, from no template",
    ISTIO_META_ENABLE_SELF_DISCOVERY: "the bootstrap has no cluster of the workload",
    PEER_METADATA_DISCOVERY: "the bootstrap has no extension for it",
    PROXY_CONFIG_XDS_AGENT: "the agent takes roots from the CA and its bundle alone",
    WASM_INSECURE_REGISTRIES: noWasm,
    WASM_MODULE_EXPIRY: noWasm,
    WASM_PURGE_INTERVAL: noWasm,
    WASM_HTTP_REQUEST_TIMEOUT: noWasm,
    WASM_HTTP_REQUEST_MAX_RETRIES: noWasm,
  },
} as const;

/** Values that mean the same to pilot-agent as an unset variable. */
const idleValue = /^(?:|0|f|F|false|FALSE|False|\{\})$/;

/** Finds the unsupported variables whose values would have an effect in pilot-agent. */
export function missedVariables(
  unsupported: Readonly<Record<string, string>>,
  environment: Environment,
): readonly MissedVariable[] {
  return Object.entries(unsupported).flatMap(([name, why]) => {
    const value = environment[name] ?? "";
    // Pilot-agent's own name of the socket.
    const isUsual = name === "WORKLOAD_IDENTITY_SOCKET_FILE" && value === "socket";
    return isUsual || idleValue.test(value) ? [] : [{ name, why }];
  });
}

/** Variables of Rampart's other programs, and those that Kubernetes sets for a Service named `rampart…`. */
const ofOthers =
  /^RAMPART_(?:LOG_TOKEN|PASSPHRASE|(?:.*_)?(?:SERVICE_(?:HOST|PORT).*|PORT(?:_\d+_.*)?))$/;

/** Finds unknown variables that begin with `RAMPART_`: an operator may rely on a misspelled one. */
export const unknownVariables = (environment: Environment): readonly MissedVariable[] =>
  Object.keys(environment)
    .filter((name) => name.startsWith("RAMPART_") && !variableNames.includes(name))
    .filter((name) => !ofOthers.test(name))
    .map((name) => ({ name, why: "the agent knows no variable of this name" }));
