import { resolve } from "node:path";
import { Command, Option } from "commander";
import { parseVariables, type Variables } from "../../agent/configuration/environment.ts";
import {
  createBootstrap,
  type InboundListener,
  type OutboundListener,
  type PeerMatch,
} from "../../agent/envoy/envoy-bootstrap.ts";
import { type NodeSources, nodeId } from "../../agent/envoy/envoy-node.ts";
import { createMachineBootstrap } from "../../agent/envoy/machine-bootstrap.ts";
import { OperatorError } from "../../foundation/operator-error.ts";
import { parseSocketAddress, type SocketAddress } from "../../foundation/text/socket-address.ts";
import { isWorkloadSpiffeId } from "../../pki/spiffe-id.ts";
import { orOperatorError } from "../terminal/operator-error.ts";

interface BootstrapFlags {
  readonly inbound: string[];
  readonly outbound: string[];
  readonly allow: string[];
  readonly admin: string;
  readonly nodeId?: string;
  readonly xds?: true;
  readonly type: NodeSources["kind"];
}

const collect = (value: string, before: string[]): string[] => [...before, value];

/** `rampart agent bootstrap`: an Envoy configuration that uses the agent's socket. */
export function bootstrapCommand(): Command {
  return new Command("bootstrap")
    .description("Print an Envoy bootstrap whose certificates come from the agent.")
    .option(
      "--inbound <listen=forward>",
      "accept mutual TLS, such as 0.0.0.0:15006=127.0.0.1:8080",
      collect,
      [],
    )
    .option(
      "--allow <spiffe id>",
      "an identity that may connect (default: every identity of the trust domain)",
      collect,
      [],
    )
    .option(
      "--outbound <listen=connect=spiffe id>",
      "originate mutual TLS to exactly this identity",
      collect,
      [],
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
          ? createMachineBootstrap(process.env, flags.type)
          : bootstrapOf(flags, parseVariables(process.env)),
      );
      console.log(JSON.stringify(bootstrap, undefined, 2));
    });
}

function bootstrapOf(flags: BootstrapFlags, variables: Variables): object {
  if (flags.inbound.length + flags.outbound.length === 0) {
    throw new OperatorError("give --xds, or at least one --inbound or --outbound listener");
  }
  for (const id of flags.allow) requireSpiffeId(id);
  const allowed: PeerMatch =
    flags.allow.length > 0 ? { spiffeIds: flags.allow } : { trustDomain: variables.TRUST_DOMAIN };
  return createBootstrap({
    nodeId: flags.nodeId ?? nodeId("sidecar", variables, variables.INSTANCE_IP),
    nodeCluster: variables.SERVICE_ACCOUNT || "rampart",
    sdsSocket: resolve(variables.RAMPART_SDS_SOCKET),
    admin: parseAddress(flags.admin),
    inbound: flags.inbound.map((text) => parseInbound(text, allowed)),
    outbound: flags.outbound.map(parseOutbound),
  });
}

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
