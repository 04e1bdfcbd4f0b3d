import { resolve } from "node:path";
import { ConfigurationError } from "../../foundation/configuration-error.ts";
import { type Environment, parseVariables } from "../configuration/environment.ts";
import { addressesOf } from "../configuration/machine-addresses.ts";
import { xdsSocketOf } from "../configuration/xds-settings.ts";
import type { Json } from "./bootstrap-parts.ts";
import { readPodFields } from "./downward-api.ts";
import { createNode, type NodeSources } from "./envoy-node.ts";
import { createXdsBootstrap } from "./xds-bootstrap.ts";

/** Where Istio's injection mounts the downward API. */
const podFolder = "./etc/istio/pod";

/**
 * The bootstrap for an Envoy beside this agent. It is made of the environment, the files of a pod if there is
 * one, and the addresses of the machine.
 *
 * @throws ConfigurationError with one line for each fault.
 */
export async function createMachineBootstrap(
  environment: Environment,
  kind: NodeSources["kind"],
): Promise<Json> {
  const variables = parseVariables(environment);
  const { PROXY_CONFIG, RAMPART_STATUS_ADDR: status } = variables;
  if ((variables.DISCOVERY_ADDRESS ?? PROXY_CONFIG.discoveryAddress) === undefined) {
    throw new ConfigurationError(["DISCOVERY_ADDRESS: is required for a bootstrap by xDS"]);
  }
  const [labels, annotations] = await Promise.all([
    readPodFields(`${podFolder}/labels`),
    readPodFields(`${podFolder}/annotations`),
  ]);
  const addresses = addressesOf(variables);
  return createXdsBootstrap({
    node: createNode({ kind, variables, environment, addresses, labels, annotations }),
    sdsSocket: resolve(variables.RAMPART_SDS_SOCKET),
    xdsSocket: resolve(xdsSocketOf(variables)),
    isIncremental: variables.ISTIO_DELTA_XDS,
    admin: { host: "127.0.0.1", port: PROXY_CONFIG.proxyAdminPort },
    status: { host: status.host === "0.0.0.0" ? "127.0.0.1" : status.host, port: status.port },
    healthPort: variables.ENVOY_STATUS_PORT,
    prometheusPort: variables.ENVOY_PROMETHEUS_PORT,
    runtime: PROXY_CONFIG.runtimeValues,
  });
}
