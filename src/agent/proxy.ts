import { Host } from "../foundation/addresses.ts";
import type { OperationLog } from "../foundation/events.ts";
import { type Environment, parseVariables } from "./configuration/environment.ts";
import { localhostOf } from "./configuration/xds-settings.ts";
import { drainPolicyOf } from "./configuration.ts";
import { EnvoyAdmin } from "./envoy/envoy-admin.ts";
import { envoyOptions, isEnvoy, type ProxyCommand, withOptions } from "./envoy/envoy-options.ts";
import { EnvoyProcess, usualRestarts } from "./envoy/envoy-process.ts";

/**
 * Creates a proxy to run beside an agent, by {@link envoyOptions}. The caller runs it.
 *
 * @param adminOption The URL of its admin interface, or `off`; by default Envoy's on this machine.
 * @throws ConfigurationError or OperatorError for a wrong environment.
 */
export async function createProxy(
  given: ProxyCommand,
  adminOption: string | undefined,
  environment: Environment,
  log: OperationLog,
): Promise<EnvoyProcess> {
  const variables = parseVariables(environment);
  const { proxyAdminPort, discoveryAddress } = variables.PROXY_CONFIG;
  const isDiscovering = (variables.DISCOVERY_ADDRESS ?? discoveryAddress) !== undefined;
  const host = isDiscovering ? localhostOf(variables) : "127.0.0.1";
  const url = adminOption ?? `http://${Host.bracketed(host)}:${proxyAdminPort}`;
  const admin = url === "off" ? undefined : url;
  if (admin !== undefined && !isEnvoy(given.command)) {
    const detail = `${given.command} is run as it is: unless it gives Envoy --drain-strategy immediate, a drain cuts connections off`;
    log.operation({ event: "proxy-arguments-unchanged", level: "warning", detail });
  }
  return new EnvoyProcess({
    ...withOptions(given, await envoyOptions(environment, given.arguments)),
    admin: admin === undefined ? undefined : new EnvoyAdmin(admin),
    drain: drainPolicyOf(variables),
    restarts: usualRestarts,
    log,
  });
}
