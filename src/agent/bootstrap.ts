import { resolve } from "node:path";
import { OperatorError } from "../foundation/errors.ts";
import { SocketAddress } from "../foundation/socket-address.ts";
import { SpiffeId, TrustDomain } from "../pki/spiffe-id.ts";
import { type Environment, parseVariables } from "./configuration/environment.ts";
import { addressesOf } from "./configuration/xds-settings.ts";
import {
  type BootstrapOptions,
  createBootstrap,
  type EgressListener,
  type InboundListener,
  type IngressListener,
  type OutboundListener,
} from "./envoy/envoy-bootstrap.ts";
import { type NodeSources, nodeId } from "./envoy/envoy-node.ts";
import type { PeerMatch, RootFile } from "./envoy/tls-contexts.ts";
import { createMachineBootstrap } from "./envoy/xds-bootstrap.ts";

/** The flags of `agent bootstrap`. */
export interface BootstrapFlags extends ListenerFlags {
  readonly admin: string;
  readonly nodeId?: string;
  readonly xds?: true;
  /** The kind of proxy, if its configuration comes from istiod. */
  readonly type: NodeSources["kind"];
}

/**
 * The configuration of an Envoy whose certificates come from the agent. With `xds`, no other flag but `type` is read.
 *
 * @throws ConfigurationError, or OperatorError for a malformed listener.
 */
export async function bootstrapOf(
  flags: BootstrapFlags,
  environment: Environment,
): Promise<object> {
  if (flags.xds) return createMachineBootstrap(environment, flags.type);
  const variables = parseVariables(environment);
  return createBootstrap({
    nodeId: flags.nodeId ?? nodeId("sidecar", variables, variables.INSTANCE_IP),
    nodeCluster: variables.SERVICE_ACCOUNT || "rampart",
    sdsSocket: resolve(variables.RAMPART_SDS_SOCKET),
    admin: parseAddress(flags.admin),
    addresses: addressesOf(variables),
    policy: variables.COMPLIANCE_POLICY,
    ...parseListeners(flags, variables.TRUST_DOMAIN),
  });
}

/** The flags that describe listeners, as an operator types them. */
export interface ListenerFlags {
  readonly inbound: string[];
  readonly outbound: string[];
  readonly ingress: string[];
  readonly clientCa?: string;
  readonly egress: string[];
  readonly allow: string[];
}

/**
 * Parses the listeners of `agent bootstrap`. Without `allow`, they accept every peer of the trust domain.
 * @throws OperatorError for a malformed listener, if there is none, and for `clientCa` without an ingress listener.
 */
export function parseListeners(
  { inbound, outbound, ingress, clientCa, egress, allow }: ListenerFlags,
  trustDomain: TrustDomain,
): Pick<BootstrapOptions, "inbound" | "outbound" | "ingress" | "egress"> {
  if ([inbound, outbound, ingress, egress].every(({ length }) => length === 0)) {
    throw new OperatorError(
      "give --xds, or at least one --inbound, --outbound, --ingress or --egress listener",
    );
  }
  if (clientCa !== undefined && ingress.length === 0) {
    throw new OperatorError("--client-ca is for --ingress listeners, and there is none");
  }
  for (const id of allow) requireSpiffeId(id);
  const allowed: PeerMatch = allow.length > 0 ? { spiffeIds: allow } : { trustDomain };
  return {
    inbound: inbound.map((text) => parseInbound(text, allowed)),
    outbound: outbound.map(parseOutbound),
    ingress: ingress.map((text) => parseIngress(text, clientCa)),
    egress: egress.map((text) => parseEgress(text, allowed)),
  };
}

function parseIngress(text: string, clientCa: string | undefined): IngressListener {
  const [listen = "", files = "", ...rest] = text.split("=");
  const [chainFile = "", keyFile = "", ...others] = files.split("~");
  if (chainFile === "" || keyFile === "" || others.length > 0) {
    throw new OperatorError(`${JSON.stringify(files)} is not <chain file>~<key file>`);
  }
  return {
    ...parseOutbound([listen, ...rest].join("=")),
    certificate: { chainFile: resolve(chainFile), keyFile: resolve(keyFile) },
    clientCa: clientCa === undefined ? undefined : rootFile(clientCa),
  };
}

function parseEgress(text: string, peers: PeerMatch): EgressListener {
  const [listen = "", connect = "", root = ""] = text.split("=", 3);
  if (root === "") throw new OperatorError(`${JSON.stringify(text)} names no roots for the server`);
  return {
    listen: parseAddress(listen),
    connect: parseAddress(connect),
    peers,
    root: rootFile(root),
  };
}

/** Makes the path absolute, because the agent that reads the file may run in another folder. */
const rootFile = (path: string): RootFile => (path === "system" ? path : resolve(path));

function parseInbound(text: string, peers: PeerMatch): InboundListener {
  const [listen = "", forward = ""] = text.split("=", 2);
  return { listen: parseAddress(listen), forward: parseAddress(forward), peers };
}

function parseOutbound(text: string): OutboundListener {
  const [listen = "", connect = "", spiffeId = ""] = text.split("=", 3);
  requireSpiffeId(spiffeId);
  const peers = { spiffeIds: [spiffeId] };
  return { listen: parseAddress(listen), connect: parseAddress(connect), peers };
}

function requireSpiffeId(text: string): void {
  if (!SpiffeId.isWorkload(text))
    throw new OperatorError(
      `${JSON.stringify(text)} is not a workload's SPIFFE ID${TrustDomain.hint(text)}`,
    );
}

function parseAddress(text: string): SocketAddress {
  const address = SocketAddress.parse(text);
  if (address) return address;
  throw new OperatorError(`${JSON.stringify(text)} is not host:port`);
}
