import { Command, Option } from "commander";
import { type BootstrapFlags, bootstrapOf } from "../../../agent/bootstrap.ts";
import { orOperatorError } from "../../terminal/failures.ts";
import type { Terminal } from "../../terminal/terminal.ts";

/** Makes an option that may be given several times. */
const listed = (flags: string, what: string, otherwise = "none"): Option =>
  new Option(flags, what)
    .argParser((value: string, before: string[]) => [...before, value])
    .default([], otherwise);

/**
 * `rampart agent bootstrap`: prints an Envoy configuration that uses the agent's socket. The function is long because
 * it is a table: one option after another, in the order of the help.
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
      const bootstrap = await orOperatorError(() => bootstrapOf(flags, terminal.environment));
      terminal.print(JSON.stringify(bootstrap, undefined, 2));
    });
}
