import { isIP, isIPv4, isIPv6 } from "node:net";
import type { SocketAddress } from "../../foundation/socket-address.ts";
import type { CompliancePolicy } from "../../program/tls-policy.ts";
import {
  type CertificateFiles,
  egressClient,
  endpoint,
  httpConnections,
  ingressServer,
  type Json,
  meshClient,
  meshServer,
  type PeerMatch,
  protocolOptions,
  type RootFile,
  secretDiscoveryCluster,
  socketAddress,
} from "./tls-contexts.ts";

/** A listener that accepts mutual TLS and forwards plaintext HTTP to the workload. */
export interface InboundListener {
  readonly listen: SocketAddress;
  readonly forward: SocketAddress;
  readonly peers: PeerMatch;
}

/** A listener that accepts plaintext HTTP from the workload and forwards it by mutual TLS. */
export interface OutboundListener {
  readonly listen: SocketAddress;
  readonly connect: SocketAddress;
  readonly peers: PeerMatch;
}

/** A listener that accepts TLS from outside the mesh, and forwards into it by mutual TLS. */
export interface IngressListener extends OutboundListener {
  readonly certificate: CertificateFiles;
  /** The CA of which clients need a certificate; `undefined` accepts clients without one. */
  readonly clientCa: RootFile | undefined;
}

/** A listener that accepts mutual TLS of the mesh, and forwards by TLS to a server outside. */
export interface EgressListener extends OutboundListener {
  readonly root: RootFile;
}

/** The node, sockets and listeners of an Envoy that needs no istiod. */
export interface BootstrapOptions {
  readonly nodeId: string;
  readonly nodeCluster: string;
  readonly sdsSocket: string;
  readonly admin: SocketAddress;
  readonly inbound?: readonly InboundListener[];
  readonly outbound?: readonly OutboundListener[];
  readonly ingress?: readonly IngressListener[];
  readonly egress?: readonly EgressListener[];
  /** The addresses of this machine. Names are not resolved to a family that the machine lacks. */
  readonly addresses?: readonly string[];
  /** The TLS policy of every listener and cluster. */
  readonly policy?: CompliancePolicy;
}

/**
 * Creates the complete bootstrap of an Envoy that gets its certificates from the agent. It has static
 * listeners and clusters, with the TLS contexts that a mesh configures.
 */
export function createBootstrap(options: BootstrapOptions): Json {
  const passages = passagesOf(options);
  return {
    node: { id: options.nodeId, cluster: options.nodeCluster },
    admin: { address: socketAddress(options.admin) },
    static_resources: {
      listeners: passages.map(({ listener }) => listener),
      clusters: [
        secretDiscoveryCluster(options.sdsSocket),
        ...passages.map((passage) => passage.cluster),
      ],
    },
  };
}

/** Each listener with the cluster that it forwards to. */
function passagesOf({
  inbound = [],
  outbound = [],
  ingress = [],
  egress = [],
  addresses = [],
  policy = "",
}: BootstrapOptions): readonly { readonly listener: Json; readonly cluster: Json }[] {
  const family = familyOf(addresses);
  return [
    ...inbound.map(({ listen, forward, peers }, i) => {
      const name = `inbound-${i}`;
      const listener = listenerOf(name, listen, meshSettings, meshServer(peers, policy));
      return { listener, cluster: cluster(name, forward, family) };
    }),
    ...outbound.map(({ listen, connect, peers }, i) => {
      const name = `outbound-${i}`;
      const client = meshClient(peers, connect, policy);
      return {
        listener: listenerOf(name, listen),
        cluster: tlsCluster(name, connect, family, client),
      };
    }),
    ...ingress.map(({ listen, connect, peers, certificate, clientCa }, i) => {
      const name = `ingress-${i}`;
      const server = ingressServer(certificate, clientCa, policy);
      const listener = listenerOf(name, listen, ingressSettings(clientCa !== undefined), server);
      const client = meshClient(peers, connect, policy);
      return { listener, cluster: tlsCluster(name, connect, family, client) };
    }),
    ...egress.map(({ listen, peers, connect, root }, i) => {
      const name = `egress-${i}`;
      const listener = listenerOf(name, listen, meshSettings, meshServer(peers, policy));
      return {
        listener,
        cluster: tlsCluster(name, connect, family, egressClient(root, connect, policy)),
      };
    }),
  ];
}

const meshSettings: Json = {
  // Envoy replaces the header that a peer sent, so the workload may trust it.
  forward_client_cert_details: "SANITIZE_SET",
  set_current_client_cert_details: { uri: true },
};

const ingressSettings = (hasClientCa: boolean): Json => ({
  // Nobody outside may claim to be another address or client, nor hide a path from a rule.
  use_remote_address: true,
  normalize_path: true,
  forward_client_cert_details: hasClientCa ? "SANITIZE_SET" : "SANITIZE",
  ...(hasClientCa && {
    set_current_client_cert_details: { subject: true, uri: true, dns: true },
  }),
});

function listenerOf(
  name: string,
  listen: SocketAddress,
  settings: Json = {},
  transport_socket?: Json,
): Json {
  const filters = [httpConnections(name, settings)];
  const chain = transport_socket ? { filters, transport_socket } : { filters };
  return { name, address: socketAddress(listen), filter_chains: [chain] };
}

function tlsCluster(name: string, to: SocketAddress, family: string, transport_socket: Json): Json {
  return {
    ...cluster(name, to, family),
    // ALPN decides between HTTP/2 and HTTP/1.1.
    ...protocolOptions({
      auto_config: { http_protocol_options: {}, http2_protocol_options: {} },
    }),
    transport_socket,
  };
}

/**
 * Envoy's `dns_lookup_family`. By default Envoy uses the IPv6 addresses of a name that has any, even on a machine without
 * IPv6. With `ALL` it would alternate between the families, and if one is broken, half of the connections would fail.
 */
function familyOf(addresses: readonly string[]): string {
  if (addresses.length === 0 || addresses.every(isIPv4)) return "V4_ONLY";
  return addresses.every(isIPv6) ? "V6_ONLY" : "V4_PREFERRED";
}

function cluster(name: string, to: SocketAddress, family: string): Json {
  return {
    name,
    ...(isIP(to.host) === 0
      ? { type: "STRICT_DNS", dns_lookup_family: family }
      : { type: "STATIC" }),
    connect_timeout: "5s",
    load_assignment: endpoint(name, socketAddress(to)),
  };
}
