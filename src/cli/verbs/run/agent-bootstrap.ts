import { resolve } from "node:path";
import { Command, Option } from "commander";
import { parseVariables, type Variables } from "../../../agent/configuration/environment.ts";
import { createBootstrap } from "../../../agent/envoy/envoy-bootstrap.ts";
import { type NodeSources, nodeId } from "../../../agent/envoy/envoy-node.ts";
import { createMachineBootstrap } from "../../../agent/envoy/xds-bootstrap.ts";
import { orOperatorError } from "../../terminal/failures.ts";
import type { Terminal } from "../../terminal/terminal.ts";
import { type ListenerFlags, parseAddress, parseListeners } from "./bootstrap-listeners.ts";

interface BootstrapFlags extends ListenerFlags {
  readonly admin: string;
  readonly nodeId?: string;
  readonly xds?: true;
  readonly type: NodeSources["kind"];
}

const collect = (value: string, before: string[]): string[] => [...before, value];

/** `rampart agent bootstrap`: an Envoy configuration that uses the agent's socket. */
export function bootstrapCommand(terminal: Terminal): Command {
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
    .option(
      "--ingress <listen=chain~key=connect=spiffe id>",
      "accept TLS from outside the mesh with a certificate of its own, and originate mutual TLS to this identity",
      collect,
      [],
    )
    .option("--client-ca <file>", "clients of --ingress need a certificate of this CA")
    .option(
      "--egress <listen=connect=root>",
      "accept mutual TLS, and originate TLS to a server outside; root is a PEM file, or system",
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
          ? createMachineBootstrap(terminal.environment, flags.type)
          : bootstrapOf(flags, parseVariables(terminal.environment)),
      );
      terminal.printJson(bootstrap);
    });
}

function bootstrapOf(flags: BootstrapFlags, variables: Variables): object {
  return createBootstrap({
    nodeId: flags.nodeId ?? nodeId("sidecar", variables, variables.INSTANCE_IP),
    nodeCluster: variables.SERVICE_ACCOUNT || "rampart",
    sdsSocket: resolve(variables.RAMPART_SDS_SOCKET),
    admin: parseAddress(flags.admin),
    ...parseListeners(flags, variables.TRUST_DOMAIN),
  });
}
