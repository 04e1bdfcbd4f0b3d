import { isIPv6 } from "node:net";
import { resolve } from "node:path";
import { ConfigurationError } from "../../foundation/errors.ts";
import { SocketAddress } from "../../foundation/socket-address.ts";
import { type Environment, parseVariables } from "../configuration/environment.ts";
import { addressesOf, localhostOf, xdsSocketOf } from "../configuration/xds-settings.ts";
import { createNode, type EnvoyNode, type NodeSources, readPodFields } from "./envoy-node.ts";
import {
  endpoint,
  grpcSource,
  httpConnections,
  type Json,
  secretDiscoveryCluster,
  socketAddress,
  socketCluster,
  typeUrl,
} from "./tls-contexts.ts";

/** The settings of a bootstrap whose listeners and clusters come from istiod. */
interface XdsBootstrapOptions {
  readonly node: EnvoyNode;
  readonly sdsSocket: string;
  readonly xdsSocket: string;
  readonly isIncremental: boolean;
  readonly admin: SocketAddress;
  readonly status: SocketAddress;
  /** Whether the machine's first address is IPv6. Then listeners accept both families. */
  readonly isIpv6: boolean;
  /** The port for readiness probes of kubelets and load balancers. */
  readonly healthPort: number;
  readonly prometheusPort: number;
  /** `runtimeValues` of Istio's `ProxyConfig`: an empty text removes a default. */
  readonly runtime: Readonly<Record<string, string>>;
}

const xdsCluster = "xds-grpc";
const [agentCluster, adminCluster] = ["agent", "prometheus_stats"];

/** Istio's default runtime values. */
const usualRuntime: Json = {
  "overload.global_downstream_max_connections": "2147483647",
  "re2.max_program_size.error_level": "32768",
  "envoy.deprecated_features:envoy.config.listener.v3.Listener.hidden_envoy_deprecated_use_original_dst": true,
  "envoy.reloadable_features.http_reject_path_with_fragment": false,
  "envoy.reloadable_features.coalesce_lb_rebuilds_on_batch_update": false,
  "envoy.reloadable_features.fixed_heap_use_allocated": true,
};

/** Envoy keeps only the statistics that readiness, drain and Istio need: in a large mesh, all of them would cost too much memory. */
const statistics = {
  prefix: [
    "reporter=",
    "cluster_manager",
    "listener_manager",
    "server",
    "cluster.xds-grpc",
    "wasm",
    "component",
    "istio",
  ],
  suffix: [
    "rbac.allowed",
    "rbac.denied",
    "shadow_allowed",
    "shadow_denied",
    "downstream_cx_active",
  ],
};

const address = String.raw`(((?:[_.[:digit:]]*|[_\[\]aAbBcCdDeEfF[:digit:]]*))\.)`;

/** Istio's tags and no others: dashboards name series by them. istiod ends its clusters' names with a semicolon. */
const statisticsTags: Readonly<Record<string, string>> = {
  cluster_name: String.raw`^cluster(\.(.+);)`,
  http_conn_manager_prefix: String.raw`^http\.(((?:[_.[:digit:]\w]*|[_\[\]aAbBcCdDeEfF[:digit:]\w\:]*));\.)`,
  thread_name: String.raw`^server(\.(.+))\.watchdog`,
  tcp_prefix: String.raw`^tcp\.((.*?)\.)\w+?$`,
  response_code: String.raw`_rq(_(\d{3}))$`,
  response_code_class: String.raw`_rq(_(\dxx))$`,
  http_conn_manager_listener_prefix: String.raw`^listener(?=\.).*?\.http\.${address}`,
  listener_address: String.raw`^listener\.${address}`,
  mongo_prefix: String.raw`^mongo\.(.+?)\.(collection|cmd|cx_|op_|delays_|decoding_)(.*?)$`,
  cache: String.raw`(cache\.(.+?)\.)`,
  component: String.raw`(component\.(.+?)\.)`,
  tag: String.raw`(tag\.(.+?);\.)`,
  wasm_filter: String.raw`(wasm_filter\.(.+?)\.)`,
  authz_enforce_result: String.raw`rbac(\.(allowed|denied))`,
  authz_dry_run_action: String.raw`(\.istio_dry_run_(allow|deny)_)`,
  authz_dry_run_result: String.raw`(\.shadow_(allowed|denied))`,
};

/** The complete bootstrap of an Envoy behind the agent's XDS proxy. It is long because it has the shape of that document. */
function createXdsBootstrap(options: XdsBootstrapOptions): Json {
  const { node, admin, status } = options;
  const wildcard = options.isIpv6 ? "::" : "0.0.0.0";
  const ads = { ads: {}, initial_fetch_timeout: "0s", resource_api_version: "V3" };
  return {
    node,
    admin: { address: socketAddress(admin) },
    layered_runtime: {
      layers: [
        { name: "global config", static_layer: runtimeOf(options.runtime) },
        { name: "admin", admin_layer: {} },
      ],
    },
    bootstrap_extensions: [
      {
        name: "envoy.bootstrap.internal_listener",
        typed_config: {
          "@type": typeUrl("envoy.extensions.bootstrap.internal_listener.v3.InternalListener"),
          buffer_size_kb: 64,
        },
      },
    ],
    stats_config: {
      use_all_default_tags: false,
      stats_tags: Object.entries(statisticsTags).map(([tag_name, regex]) => ({ tag_name, regex })),
      stats_matcher: { inclusion_list: { patterns: patternsOf() } },
    },
    deferred_stat_options: { enable_deferred_creation_stats: true },
    ...overloadManager(options.runtime),
    dynamic_resources: {
      lds_config: ads,
      cds_config: ads,
      ads_config: grpcSource(options.isIncremental ? "DELTA_GRPC" : "GRPC", xdsCluster),
    },
    static_resources: {
      clusters: [
        localCluster(adminCluster, admin),
        localCluster(agentCluster, status),
        secretDiscoveryCluster(options.sdsSocket),
        discoveryCluster(options.xdsSocket),
      ].map(({ name, ...cluster }) => ({ name, alt_stat_name: `${name};`, ...cluster })),
      listeners: [
        localListener(wildcard, options.prometheusPort, "stats", "/stats/prometheus", adminCluster),
        localListener(wildcard, options.healthPort, "agent", "/healthz/ready", agentCluster),
      ],
    },
  };
}

function runtimeOf(given: Readonly<Record<string, string>>): Json {
  const entries = Object.entries(given).map(([name, value]) => {
    const isFlag = value === "true" || value === "false";
    return [name, isFlag ? value === "true" : value] as const;
  });
  const all: Json = { ...usualRuntime, ...Object.fromEntries(entries) };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== ""));
}

const connectionsKey = "overload.global_downstream_max_connections";

/** The limit of connections for new versions of Envoy. Old ones read it from the runtime. */
function overloadManager(runtime: Readonly<Record<string, string>>): Json {
  const limit = runtimeOf(runtime)[connectionsKey];
  if (limit === undefined) return {};
  const config = {
    "@type": typeUrl(
      "envoy.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig",
    ),
    max_active_downstream_connections: limit,
  };
  const name = "envoy.resource_monitors.global_downstream_max_connections";
  return { overload_manager: { resource_monitors: [{ name, typed_config: config }] } };
}

function patternsOf(): readonly Json[] {
  return [
    ...statistics.prefix.map((prefix) => ({ prefix })),
    ...statistics.suffix.map((suffix) => ({ suffix })),
    { safe_regex: { regex: "vhost\\..*\\.route\\..*" } },
  ];
}

/** Each stream gets a connection of its own, so that no stream waits for another. */
function discoveryCluster(path: string): Json {
  const limits = { max_connections: 100_000, max_pending_requests: 100_000, max_requests: 100_000 };
  return {
    ...socketCluster(xdsCluster, path),
    max_requests_per_connection: 1,
    circuit_breakers: {
      thresholds: ["DEFAULT", "HIGH"].map((priority) => ({ priority, ...limits })),
    },
  };
}

function localCluster(name: string, to: SocketAddress): Json {
  return {
    name,
    type: "STATIC",
    connect_timeout: "0.250s",
    load_assignment: endpoint(name, socketAddress(to)),
  };
}

/** The socket address, which on `::` accepts IPv4 too: Envoy's default there is IPv6 alone. */
function anyAddress(host: string, port: number): Json {
  if (host !== "::") return socketAddress({ host, port });
  return { socket_address: { address: host, port_value: port, ipv4_compat: true } };
}

function localListener(
  host: string,
  port: number,
  name: string,
  prefix: string,
  cluster: string,
): Json {
  return {
    name: `${host}_${port}`,
    address: anyAddress(host, port),
    // A proxy that is full still answers probes.
    ignore_global_conn_limit: true,
    bypass_overload_manager: true,
    filter_chains: [
      { filters: [httpConnections(name, {}, { match: { prefix }, route: { cluster } })] },
    ],
  };
}

/** Where Istio's injection mounts the downward API. */
const podFolder = "./etc/istio/pod";

/**
 * The bootstrap for an Envoy beside this agent. It is made of the environment, the files of a pod if there is
 * one, and the addresses of the machine.
 *
 * @throws ConfigurationError with one line for each fault, or OperatorError for a file that cannot be read.
 */
export async function createMachineBootstrap(
  environment: Environment,
  kind: NodeSources["kind"],
): Promise<Json> {
  const variables = parseVariables(environment);
  const { PROXY_CONFIG, RAMPART_STATUS_ADDR: status } = variables;
  if ((variables.DISCOVERY_ADDRESS ?? PROXY_CONFIG.discoveryAddress) === undefined) {
    throw new ConfigurationError(["DISCOVERY_ADDRESS: is required for a bootstrap by xDS"]);
  }
  const [labels, annotations] = await Promise.all([
    readPodFields(`${podFolder}/labels`),
    readPodFields(`${podFolder}/annotations`),
  ]);
  const addresses = addressesOf(variables);
  const localhost = localhostOf(variables);
  return createXdsBootstrap({
    node: createNode({ kind, variables, environment, addresses, labels, annotations }),
    sdsSocket: resolve(variables.RAMPART_SDS_SOCKET),
    xdsSocket: resolve(xdsSocketOf(variables)),
    isIncremental: variables.ISTIO_DELTA_XDS,
    isIpv6: isIPv6(localhost),
    admin: { host: localhost, port: PROXY_CONFIG.proxyAdminPort },
    status: {
      host: status.host === "" ? localhost : SocketAddress.loopbackOf(status.host),
      port: status.port,
    },
    healthPort: variables.ENVOY_STATUS_PORT,
    prometheusPort: variables.ENVOY_PROMETHEUS_PORT,
    runtime: PROXY_CONFIG.runtimeValues,
  });
}
