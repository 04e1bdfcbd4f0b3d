import { resolve } from "node:path";
import { Command, Option } from "commander";
import { parseVariables, type Variables } from "../../../agent/configuration/environment.ts";
import {
  type BootstrapOptions,
  createBootstrap,
  type EgressListener,
  type InboundListener,
  type IngressListener,
  type OutboundListener,
} from "../../../agent/envoy/envoy-bootstrap.ts";
import { type NodeSources, nodeId } from "../../../agent/envoy/envoy-node.ts";
import type { PeerMatch, RootFile } from "../../../agent/envoy/tls-contexts.ts";
import { createMachineBootstrap } from "../../../agent/envoy/xds-bootstrap.ts";
import { parseSocketAddress, type SocketAddress } from "../../../foundation/addresses.ts";
import { OperatorError } from "../../../foundation/errors.ts";
import { isWorkloadSpiffeId, type TrustDomain } from "../../../pki/spiffe-id.ts";
import { orOperatorError } from "../../terminal/failures.ts";
import type { Terminal } from "../../terminal/terminal.ts";

interface BootstrapFlags extends ListenerFlags {
  readonly admin: string;
  readonly nodeId?: string;
  readonly xds?: true;
  readonly type: NodeSources["kind"];
}

/** An option that may come several times. */
const listed = (flags: string, what: string, otherwise = "none"): Option =>
  new Option(flags, what)
    .argParser((value: string, before: string[]) => [...before, value])
    .default([], otherwise);

/**
 * `rampart agent bootstrap`: an Envoy configuration that uses the agent's socket. The function is long because it is
 * a table: one option after another, in the order of the help.
 */
export function bootstrapCommand(terminal: Terminal): Command {
  return new Command("bootstrap")
    .description("Print an Envoy bootstrap whose certificates come from the agent.")
    .addOption(
      listed(
        "--inbound <listen=forward>",
        "accept mutual TLS, such as 0.0.0.0:15006=127.0.0.1:8080",
      ),
    )
    .addOption(
      listed(
        "--allow <spiffe id>",
        "an identity that may connect",
        "every identity of the trust domain",
      ),
    )
    .addOption(
      listed(
        "--outbound <listen=connect=spiffe id>",
        "originate mutual TLS to exactly this identity",
      ),
    )
    .addOption(
      listed(
        "--ingress <listen=chain~key=connect=spiffe id>",
        "accept TLS from outside the mesh with a certificate of its own, and originate mutual TLS to this identity",
      ),
    )
    .option("--client-ca <file>", "clients of --ingress need a certificate of this CA")
    .addOption(
      listed(
        "--egress <listen=connect=root>",
        "accept mutual TLS, and originate TLS to a server outside; root is a PEM file, or system",
      ),
    )
    .option("--admin <address>", "Envoy's admin interface", "127.0.0.1:15000")
    .option(
      "--node-id <id>",
      "Envoy's node id (default: made of POD_NAME, POD_NAMESPACE and INSTANCE_IP)",
    )
    .option("--xds", "listeners and clusters from istiod, through the agent's XDS proxy")
    .addOption(
      new Option("--type <type>", "with --xds: what the proxy is")
        .choices(["sidecar", "router"])
        .default("sidecar"),
    )
    .action(async (flags: BootstrapFlags) => {
      const bootstrap = await orOperatorError(async () =>
        flags.xds
          ? createMachineBootstrap(terminal.environment, flags.type)
          : bootstrapOf(flags, parseVariables(terminal.environment)),
      );
      terminal.print(JSON.stringify(bootstrap, undefined, 2));
    });
}

function bootstrapOf(flags: BootstrapFlags, variables: Variables): object {
  return createBootstrap({
    nodeId: flags.nodeId ?? nodeId("sidecar", variables, variables.INSTANCE_IP),
    nodeCluster: variables.SERVICE_ACCOUNT || "rampart",
    sdsSocket: resolve(variables.RAMPART_SDS_SOCKET),
    admin: parseAddress(flags.admin),
    policy: variables.COMPLIANCE_POLICY,
    ...parseListeners(flags, variables.TRUST_DOMAIN),
  });
}

/** The listeners of a bootstrap, as an operator types them. */
export interface ListenerFlags {
  readonly inbound: string[];
  readonly outbound: string[];
  readonly ingress: string[];
  readonly clientCa?: string;
  readonly egress: string[];
  readonly allow: string[];
}

/** @throws OperatorError for a listener that is none, and for none at all. */
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

/** The agent that serves the file may run in another folder. */
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
  if (!isWorkloadSpiffeId(text))
    throw new OperatorError(`${JSON.stringify(text)} is not a workload's SPIFFE ID`);
}

function parseAddress(text: string): SocketAddress {
  const address = parseSocketAddress(text);
  if (address) return address;
  throw new OperatorError(`${JSON.stringify(text)} is not host:port`);
}
