import { isIP } from "node:net";
import type { SocketAddress } from "../../foundation/addresses.ts";
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

/** A listener that takes TLS from outside the mesh, and forwards into it by mutual TLS. */
export interface IngressListener extends OutboundListener {
  readonly certificate: CertificateFiles;
  /** Clients need a certificate of this CA. */
  readonly clientCa: RootFile | undefined;
}

/** A listener that takes mutual TLS of the mesh, and forwards by TLS to a server outside. */
export interface EgressListener {
  readonly listen: SocketAddress;
  readonly peers: PeerMatch;
  readonly connect: SocketAddress;
  readonly root: RootFile;
}

export interface BootstrapOptions {
  readonly nodeId: string;
  readonly nodeCluster: string;
  readonly sdsSocket: string;
  readonly admin: SocketAddress;
  readonly inbound?: readonly InboundListener[];
  readonly outbound?: readonly OutboundListener[];
  readonly ingress?: readonly IngressListener[];
  readonly egress?: readonly EgressListener[];
  /** For the TLS of every listener and cluster. */
  readonly policy?: CompliancePolicy;
}

interface Passage {
  readonly listener: Json;
  readonly cluster: Json;
}

/**
 * Creates the complete bootstrap of an Envoy that gets its certificates from the agent. It has static
 * listeners and clusters, with the TLS contexts that a mesh configures.
 */
export function createBootstrap(options: BootstrapOptions): Json {
  const { inbound = [], outbound = [], ingress = [], egress = [], policy = "" } = options;
  const passages = [
    ...inbound.map((each, i) => inboundPassage(each, `inbound-${i}`, policy)),
    ...outbound.map((each, i) => outboundPassage(each, `outbound-${i}`, policy)),
    ...ingress.map((each, i) => ingressPassage(each, `ingress-${i}`, policy)),
    ...egress.map((each, i) => egressPassage(each, `egress-${i}`, policy)),
  ];
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

function inboundPassage(
  { listen, forward, peers }: InboundListener,
  name: string,
  policy: CompliancePolicy,
): Passage {
  return {
    listener: meshListener(name, listen, peers, policy),
    cluster: cluster(name, forward),
  };
}

function outboundPassage(
  { listen, connect, peers }: OutboundListener,
  name: string,
  policy: CompliancePolicy,
): Passage {
  const filters = [httpConnections(name, {})];
  return {
    listener: { name, address: socketAddress(listen), filter_chains: [{ filters }] },
    cluster: tlsCluster(name, connect, meshClient(peers, connect, policy)),
  };
}

function ingressPassage(
  { listen, connect, peers, certificate, clientCa }: IngressListener,
  name: string,
  policy: CompliancePolicy,
): Passage {
  const settings = {
    // Nobody outside may claim to be another address or client, nor hide a path from a rule.
    use_remote_address: true,
    normalize_path: true,
    ...(clientCa === undefined
      ? { forward_client_cert_details: "SANITIZE" }
      : {
          forward_client_cert_details: "SANITIZE_SET",
          set_current_client_cert_details: { subject: true, uri: true, dns: true },
        }),
  };
  const transport_socket = ingressServer(certificate, clientCa, policy);
  const filters = [httpConnections(name, settings)];
  return {
    listener: {
      name,
      address: socketAddress(listen),
      filter_chains: [{ filters, transport_socket }],
    },
    cluster: tlsCluster(name, connect, meshClient(peers, connect, policy)),
  };
}

function egressPassage(
  { listen, peers, connect, root }: EgressListener,
  name: string,
  policy: CompliancePolicy,
): Passage {
  return {
    listener: meshListener(name, listen, peers, policy),
    cluster: tlsCluster(name, connect, egressClient(root, connect, policy)),
  };
}

function meshListener(
  name: string,
  listen: SocketAddress,
  peers: PeerMatch,
  policy: CompliancePolicy,
): Json {
  const settings = {
    // Envoy replaces the header that a peer sent, so the workload may trust it.
    forward_client_cert_details: "SANITIZE_SET",
    set_current_client_cert_details: { uri: true },
  };
  const filters = [httpConnections(name, settings)];
  return {
    name,
    address: socketAddress(listen),
    filter_chains: [{ filters, transport_socket: meshServer(peers, policy) }],
  };
}

function tlsCluster(name: string, to: SocketAddress, transport_socket: Json): Json {
  return {
    ...cluster(name, to),
    // ALPN chooses HTTP/2 or HTTP/1.1.
    ...protocolOptions({
      auto_config: { http_protocol_options: {}, http2_protocol_options: {} },
    }),
    transport_socket,
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
