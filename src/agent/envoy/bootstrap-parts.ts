import type { SocketAddress } from "../../foundation/text/socket-address.ts";

/** A JSON object of Envoy's configuration. */
export type Json = Readonly<Record<string, unknown>>;

/** The cluster of the agent's secrets. The configuration of istiod names it so too. */
export const sdsCluster = "sds-grpc";

const httpOptions = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";

/** The name of a type in an `@type`. */
export const typeUrl = (name: string): string => `type.googleapis.com/${name}`;

/** A filter that forwards HTTP by one route: everything to the cluster of the same name, by default. */
export function httpConnections(
  name: string,
  settings: Json,
  route: Json = { match: { prefix: "/" }, route: { cluster: name, timeout: "0s" } },
): Json {
  const filters = "envoy.extensions.filters";
  return {
    name: "envoy.filters.network.http_connection_manager",
    typed_config: {
      "@type": typeUrl(`${filters}.network.http_connection_manager.v3.HttpConnectionManager`),
      stat_prefix: name,
      ...settings,
      route_config: { virtual_hosts: [{ name, domains: ["*"], routes: [route] }] },
      http_filters: [
        {
          name: "envoy.filters.http.router",
          typed_config: { "@type": typeUrl(`${filters}.http.router.v3.Router`) },
        },
      ],
    },
  };
}

/** The cluster of the agent's socket for secrets. */
export function secretDiscoveryCluster(path: string): Json {
  return {
    name: sdsCluster,
    type: "STATIC",
    connect_timeout: "1s",
    ...protocolOptions({ explicit_http_config: { http2_protocol_options: {} } }),
    load_assignment: endpoint(sdsCluster, { pipe: { path } }),
  };
}

/** The protocol of a cluster. */
export function protocolOptions(options: Json): Json {
  return {
    typed_extension_protocol_options: {
      [httpOptions]: { "@type": typeUrl(httpOptions), ...options },
    },
  };
}

/** A cluster's only endpoint. */
export function endpoint(clusterName: string, address: Json): Json {
  return {
    cluster_name: clusterName,
    endpoints: [{ lb_endpoints: [{ endpoint: { address } }] }],
  };
}

/** An address of TCP. */
export function socketAddress({ host, port }: SocketAddress): Json {
  return { socket_address: { address: host, port_value: port } };
}
