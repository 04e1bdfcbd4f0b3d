import type { Environment } from "./environment.ts";

/** A variable of pilot-agent that this agent does not follow. */
interface UnsupportedVariable {
  readonly name: string;
  /** The missing feature, as the end of a sentence. */
  readonly why: string;
  /** Whether the agent starts all the same. It does where the workload notices nothing but the missing feature. */
  readonly isIgnored: boolean;
}

const noDns = "the agent has no DNS server, and a workload whose DNS is redirected to it has none";
const noMetrics = "the agent serves no metrics of the workload, and none over TLS";
const noWasm = "the agent fetches no Wasm modules";

const refused = (name: string, why: string): UnsupportedVariable => ({
  name,
  why,
  isIgnored: false,
});
const ignored = (name: string, why: string): UnsupportedVariable => ({
  name,
  why,
  isIgnored: true,
});

/** Every variable of pilot-agent whose effect somebody would miss. */
export const unsupportedVariables: readonly UnsupportedVariable[] = [
  refused("ISTIO_KUBE_APP_PROBERS", "the agent does not answer probes in the workload's place"),
  refused("ISTIO_META_DNS_CAPTURE", noDns),
  refused("ISTIO_META_ENABLE_DNS_SERVER", noDns),
  refused(
    "WORKLOAD_IDENTITY_SOCKET_FILE",
    "the agent uses no other SDS server; RAMPART_SDS_SOCKET names its own socket",
  ),
  refused("XDS_AUTH_PROVIDER", "the agent has no token but that in its file"),
  ignored("ENVOY_SECURE_METRICS_PORT", noMetrics),
  ignored("ENVOY_SECURE_MERGED_METRICS_PORT", noMetrics),
  ignored("ISTIO_PROMETHEUS_ANNOTATIONS", noMetrics),
  ignored("GRPC_XDS_BOOTSTRAP", "the agent writes no bootstrap for gRPC without a proxy"),
  ignored("ISTIO_BOOTSTRAP", "rampart agent bootstrap prints the bootstrap, from no template"),
  ignored("ISTIO_META_ENABLE_SELF_DISCOVERY", "the bootstrap has no cluster of the workload"),
  ignored("PEER_METADATA_DISCOVERY", "the bootstrap has no extension for it"),
  ignored("PROXY_CONFIG_XDS_AGENT", "the agent takes roots from the CA and its bundle alone"),
  ignored("WASM_INSECURE_REGISTRIES", noWasm),
  ignored("WASM_MODULE_EXPIRY", noWasm),
  ignored("WASM_PURGE_INTERVAL", noWasm),
  ignored("WASM_HTTP_REQUEST_TIMEOUT", noWasm),
  ignored("WASM_HTTP_REQUEST_MAX_RETRIES", noWasm),
];

/** Values with which pilot-agent does no more than without the variable. */
const idleValues: ReadonlySet<string> = new Set([
  "",
  "0",
  "f",
  "F",
  "false",
  "FALSE",
  "False",
  "{}",
]);
const ownIdleValues: Readonly<Record<string, string>> = {
  WORKLOAD_IDENTITY_SOCKET_FILE: "socket",
};

/** A set variable without its effect, for the log or for a fault. */
export interface MissedVariable {
  readonly name: string;
  readonly why: string;
}

/** The variables of this environment whose effect is missing. */
export function missedVariables(environment: Environment): {
  readonly refused: readonly MissedVariable[];
  readonly ignored: readonly MissedVariable[];
} {
  const missed = unsupportedVariables.filter(({ name }) => {
    const value = environment[name] ?? "";
    return !idleValues.has(value) && ownIdleValues[name] !== value;
  });
  return {
    refused: missed.filter(({ isIgnored }) => !isIgnored),
    ignored: missed.filter(({ isIgnored }) => isIgnored),
  };
}
