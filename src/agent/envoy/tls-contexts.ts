import { isIP } from "node:net";
import type { SocketAddress } from "../../foundation/socket-address.ts";
import { CompliancePolicy } from "../../program/tls-policy.ts";
import { defaultResource, rootResource } from "../secrets/secret-source.ts";

/** A JSON object of Envoy's configuration. */
export type Json = Readonly<Record<string, unknown>>;

/** The name of the cluster for the agent's SDS, which istiod's configuration uses too. */
const sdsCluster = "sds-grpc";

const httpOptions = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";

/** The type URL of a protobuf message, by its full name. */
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

/** Envoy's cluster for the agent's SDS socket. */
export const secretDiscoveryCluster = (path: string): Json => socketCluster(sdsCluster, path);

/** Envoy's cluster for a gRPC service of the agent at a Unix socket. */
export function socketCluster(name: string, path: string): Json {
  return {
    name,
    type: "STATIC",
    connect_timeout: "1s",
    ...protocolOptions({ explicit_http_config: { http2_protocol_options: {} } }),
    load_assignment: endpoint(name, { pipe: { path } }),
  };
}

/** A source of configuration that Envoy reaches through a cluster. */
export const grpcSource = (api_type: "GRPC" | "DELTA_GRPC", cluster_name: string): Json => ({
  api_type,
  transport_api_version: "V3",
  set_node_on_first_message_only: true,
  grpc_services: [{ envoy_grpc: { cluster_name } }],
});

/** A cluster's HTTP protocol options. */
export function protocolOptions(options: Json): Json {
  return {
    typed_extension_protocol_options: {
      [httpOptions]: { "@type": typeUrl(httpOptions), ...options },
    },
  };
}

/** The load assignment of a cluster with one endpoint. */
export function endpoint(clusterName: string, address: Json): Json {
  return {
    cluster_name: clusterName,
    endpoints: [{ lb_endpoints: [{ endpoint: { address } }] }],
  };
}

/** A TCP address for Envoy. */
export function socketAddress({ host, port }: SocketAddress): Json {
  return { socket_address: { address: host, port_value: port } };
}

/** The peers that a listener accepts: exactly these SPIFFE IDs, or every one of a trust domain. */
export type PeerMatch =
  | { readonly spiffeIds: readonly string[] }
  | { readonly trustDomain: string };

/** The files of a certificate, with absolute paths. */
export interface CertificateFiles {
  readonly chainFile: string;
  readonly keyFile: string;
}

/** The certificates that verify a peer outside the mesh: a PEM file with an absolute path, or the system's. */
export type RootFile = string | "system";

const tlsExtension = "envoy.extensions.transport_sockets.tls.v3";

/** Istio's inbound defaults. The list of cipher suites does not apply to TLS 1.3. */
const tlsParameters: Json = {
  tls_minimum_protocol_version: "TLSv1_2",
  tls_maximum_protocol_version: "TLSv1_3",
  cipher_suites: [
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES128-GCM-SHA256",
  ],
};

/** Istio's `pqc`. By default, Envoy's clients offer TLS 1.2 at most. */
const postQuantumParameters: Json = {
  tls_minimum_protocol_version: "TLSv1_3",
  tls_maximum_protocol_version: "TLSv1_3",
  ecdh_curves: [CompliancePolicy.postQuantumGroup],
};

const common = (policy: CompliancePolicy): Json => ({
  tls_params: policy === "pqc" ? postQuantumParameters : tlsParameters,
  alpn_protocols: ["h2", "http/1.1"],
});

/** Mutual TLS of the mesh: the agent's certificate, its roots, and exactly these peers. */
function meshContext(peers: PeerMatch, policy: CompliancePolicy): Json {
  const matchers =
    "trustDomain" in peers
      ? [{ prefix: `spiffe://${peers.trustDomain}/` }]
      : peers.spiffeIds.map((exact) => ({ exact }));
  return {
    ...common(policy),
    tls_certificate_sds_secret_configs: [secretConfig(defaultResource)],
    combined_validation_context: {
      default_validation_context: {
        match_typed_subject_alt_names: matchers.map((matcher) => ({ san_type: "URI", matcher })),
      },
      validation_context_sds_secret_config: secretConfig(rootResource),
    },
  };
}

/** A transport socket that requires a client certificate of the mesh. */
export function meshServer(peers: PeerMatch, policy: CompliancePolicy): Json {
  return tlsSocket("DownstreamTlsContext", {
    require_client_certificate: true,
    common_tls_context: meshContext(peers, policy),
  });
}

/**
 * A transport socket that calls a peer with the workload's certificate. It sends the host as SNI, unless that is an
 * IP address.
 */
export function meshClient(
  peers: PeerMatch,
  { host }: SocketAddress,
  policy: CompliancePolicy,
): Json {
  return tlsSocket("UpstreamTlsContext", {
    common_tls_context: meshContext(peers, policy),
    ...(isIP(host) === 0 && { sni: host }),
  });
}

/** A transport socket for clients outside the mesh. With `clientCa`, they need a certificate of that CA. */
export function ingressServer(
  { chainFile, keyFile }: CertificateFiles,
  clientCa: RootFile | undefined,
  policy: CompliancePolicy,
): Json {
  return tlsSocket("DownstreamTlsContext", {
    ...(clientCa !== undefined && { require_client_certificate: true }),
    common_tls_context: {
      ...common(policy),
      tls_certificate_sds_secret_configs: [secretConfig(`file-cert:${chainFile}~${keyFile}`)],
      ...(clientCa !== undefined && {
        validation_context_sds_secret_config: secretConfig(`file-root:${clientCa}`),
      }),
    },
  });
}

/** A transport socket that calls a server outside the mesh, whose certificate must be for `host`. */
export function egressClient(
  root: RootFile,
  { host }: SocketAddress,
  policy: CompliancePolicy,
): Json {
  const isName = isIP(host) === 0;
  const name = { san_type: isName ? "DNS" : "IP_ADDRESS", matcher: { exact: host } };
  return tlsSocket("UpstreamTlsContext", {
    ...(isName && { sni: host }),
    common_tls_context: {
      ...common(policy),
      combined_validation_context: {
        default_validation_context: { match_typed_subject_alt_names: [name] },
        validation_context_sds_secret_config: secretConfig(`file-root:${root}`),
      },
    },
  });
}

function secretConfig(name: string): Json {
  return {
    name,
    sds_config: {
      // Waits without a timeout, because the listener cannot serve without the certificate.
      initial_fetch_timeout: "0s",
      resource_api_version: "V3",
      api_config_source: grpcSource("GRPC", sdsCluster),
    },
  };
}

function tlsSocket(context: "UpstreamTlsContext" | "DownstreamTlsContext", settings: Json): Json {
  return {
    name: "envoy.transport_sockets.tls",
    typed_config: { "@type": typeUrl(`${tlsExtension}.${context}`), ...settings },
  };
}
