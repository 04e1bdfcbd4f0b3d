import { isIP } from "node:net";
import type { SocketAddress } from "../../foundation/text/socket-address.ts";
import { defaultResource, rootResource } from "../secrets/identity-secrets.ts";
import {
  endpoint,
  httpConnections,
  type Json,
  protocolOptions,
  sdsCluster,
  secretDiscoveryCluster,
  socketAddress,
  typeUrl,
} from "./bootstrap-parts.ts";

/** The peers that a listener accepts: exactly these SPIFFE IDs, or every one of a trust domain. */
export type PeerMatch =
  | { readonly spiffeIds: readonly string[] }
  | { readonly trustDomain: string };

/** A listener that takes mutual TLS and forwards plaintext HTTP to the workload. */
export interface InboundListener {
  readonly listen: SocketAddress;
  readonly forward: SocketAddress;
  readonly peers: PeerMatch;
}

/** A listener that takes plaintext HTTP from the workload and forwards it by mutual TLS. */
export interface OutboundListener {
  readonly listen: SocketAddress;
  readonly connect: SocketAddress;
  readonly peers: PeerMatch;
}

/** The settings of a bootstrap. */
export interface BootstrapOptions {
  readonly nodeId: string;
  readonly nodeCluster: string;
  readonly sdsSocket: string;
  readonly admin: SocketAddress;
  readonly inbound: readonly InboundListener[];
  readonly outbound: readonly OutboundListener[];
}

const tlsExtension = "envoy.extensions.transport_sockets.tls.v3";

/** Istio's inbound defaults. The list of suites does not concern TLS 1.3. */
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

/**
 * Creates the complete bootstrap of an Envoy that gets its certificates from the agent. It has static
 * listeners and clusters, with the TLS contexts that a mesh configures.
 */
export function createBootstrap(options: BootstrapOptions): Json {
  const { inbound, outbound } = options;
  return {
    node: { id: options.nodeId, cluster: options.nodeCluster },
    admin: { address: socketAddress(options.admin) },
    static_resources: {
      listeners: [
        ...inbound.map((listener, i) => inboundListener(listener, `inbound-${i}`)),
        ...outbound.map((listener, i) => outboundListener(listener, `outbound-${i}`)),
      ],
      clusters: [
        secretDiscoveryCluster(options.sdsSocket),
        ...inbound.map(({ forward }, i) => cluster(`inbound-${i}`, forward)),
        ...outbound.map(({ connect, peers }, i) => ({
          ...cluster(`outbound-${i}`, connect),
          // ALPN chooses HTTP/2 or HTTP/1.1.
          ...protocolOptions({
            auto_config: { http_protocol_options: {}, http2_protocol_options: {} },
          }),
          transport_socket: tlsSocket("UpstreamTlsContext", {
            common_tls_context: commonTlsContext(peers),
            ...(isIP(connect.host) === 0 && { sni: connect.host }),
          }),
        })),
      ],
    },
  };
}

function inboundListener({ listen, peers }: InboundListener, name: string): Json {
  return {
    name,
    address: socketAddress(listen),
    filter_chains: [
      {
        filters: [
          httpConnections(name, {
            // Envoy replaces the header that a peer sent, so the workload may trust it.
            forward_client_cert_details: "SANITIZE_SET",
            set_current_client_cert_details: { uri: true },
          }),
        ],
        transport_socket: tlsSocket("DownstreamTlsContext", {
          require_client_certificate: true,
          common_tls_context: commonTlsContext(peers),
        }),
      },
    ],
  };
}

function outboundListener({ listen }: OutboundListener, name: string): Json {
  return {
    name,
    address: socketAddress(listen),
    filter_chains: [{ filters: [httpConnections(name, {})] }],
  };
}

function commonTlsContext(peers: PeerMatch): Json {
  const matchers =
    "trustDomain" in peers
      ? [{ prefix: `spiffe://${peers.trustDomain}/` }]
      : peers.spiffeIds.map((exact) => ({ exact }));
  return {
    tls_params: tlsParameters,
    alpn_protocols: ["h2", "http/1.1"],
    tls_certificate_sds_secret_configs: [secretConfig(defaultResource)],
    combined_validation_context: {
      default_validation_context: {
        match_typed_subject_alt_names: matchers.map((matcher) => ({ san_type: "URI", matcher })),
      },
      validation_context_sds_secret_config: secretConfig(rootResource),
    },
  };
}

function secretConfig(name: string): Json {
  return {
    name,
    sds_config: {
      // No timeout, because the listener cannot serve without the certificate.
      initial_fetch_timeout: "0s",
      resource_api_version: "V3",
      api_config_source: {
        api_type: "GRPC",
        transport_api_version: "V3",
        set_node_on_first_message_only: true,
        grpc_services: [{ envoy_grpc: { cluster_name: sdsCluster } }],
      },
    },
  };
}

function cluster(name: string, to: SocketAddress): Json {
  return {
    name,
    type: isIP(to.host) === 0 ? "STRICT_DNS" : "STATIC",
    connect_timeout: "5s",
    load_assignment: endpoint(name, socketAddress(to)),
  };
}

function tlsSocket(context: "UpstreamTlsContext" | "DownstreamTlsContext", settings: Json): Json {
  return {
    name: "envoy.transport_sockets.tls",
    typed_config: { "@type": typeUrl(`${tlsExtension}.${context}`), ...settings },
  };
}
