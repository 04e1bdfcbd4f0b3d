import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { freePorts } from "../../../testkit/network/free-ports.ts";
import type { ServingCa } from "../../serving-ca.ts";
import { AgentProcess, type AgentVariables } from "../processes/agent-process.ts";
import type { Istiod } from "./istiod.ts";
import { addresses, namespace } from "./mesh-configuration.ts";

export interface SidecarOptions {
  readonly name: keyof typeof addresses;
  readonly folder: string;
  readonly ca: ServingCa;
  readonly istiod: Pick<Istiod, "address" | "rootFile">;
  readonly leafSeconds: number;
}

/** The environment of a sidecar on a virtual machine, without its certificates. */
interface SidecarEnvironment {
  readonly variables: AgentVariables;
  readonly adminPort: number;
  readonly statusPort: number;
}

export async function sidecarEnvironment(options: SidecarOptions): Promise<SidecarEnvironment> {
  const { name, ca, istiod } = options;
  const folder = join(options.folder, name);
  await mkdir(folder, { recursive: true });
  const [adminPort = 0, statusPort = 0, health = 0, prometheus = 0] = await freePorts(4);
  const variables = {
    // The certificates of both servers name istiod's Service.
    CA_ADDR: ca.address,
    CA_ROOT_CA: ca.rootFile,
    RAMPART_BUNDLE_URL: `${ca.published}/bundle.json`,
    DISCOVERY_ADDRESS: istiod.address,
    XDS_ROOT_CA: istiod.rootFile,
    POD_NAME: name,
    POD_NAMESPACE: namespace,
    SERVICE_ACCOUNT: name,
    INSTANCE_IP: addresses[name],
    SECRET_TTL: `${options.leafSeconds}s`,
    SECRET_GRACE_PERIOD_RATIO: "0.6",
    RAMPART_TOKEN_FILE: await ca.tokenFile(`${namespace}/${name}`),
    RAMPART_SDS_SOCKET: join(folder, "SDS"),
    ISTIO_METAJSON_LABELS: JSON.stringify({ app: name }),
    ISTIO_META_INTERCEPTION_MODE: "NONE",
    ENVOY_STATUS_PORT: String(health),
    ENVOY_PROMETHEUS_PORT: String(prometheus),
    // One of the two speaks the older protocol.
    ISTIO_DELTA_XDS: String(name === "web"),
    PROXY_CONFIG: JSON.stringify({
      configPath: folder,
      proxyAdminPort: adminPort,
      concurrency: 1,
    }),
  };
  return { variables, adminPort, statusPort };
}

/** `rampart agent run -- envoy`, with nothing else on the command line. */
export async function startSidecar(
  envoy: string,
  options: SidecarOptions,
): Promise<{ readonly agent: AgentProcess; readonly adminUrl: string }> {
  const { variables, adminPort, statusPort } = await sidecarEnvironment(options);
  const agent = new AgentProcess(options.folder, variables, statusPort);
  const adminUrl = `http://127.0.0.1:${adminPort}`;
  agent.start("--", envoy);
  return { agent, adminUrl };
}
