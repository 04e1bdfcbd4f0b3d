import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { freePorts } from "../../../testkit/network/free-ports.ts";
import { type Child, startChild } from "../../../testkit/programs/child-process.ts";
import { runRampart } from "../../../testkit/programs/rampart-process.ts";
import { namespace } from "./mesh-configuration.ts";
import { type SidecarOptions, sidecarEnvironment } from "./sidecar.ts";

export const prebuiltPilotAgent = {
  name: "pilot-agent",
  sha256: "de99534b851500e87e6fe83a2d3e60228b2cde4a977e0dfc3a4ff8e84f6f6182",
};

interface PilotPrograms {
  readonly pilotAgent: string;
  readonly envoy: string;
}

/** pilot-agent with the environment of the sidecar that `rampart agent` runs: the measure of what is right. */
export async function startPilotAgent(
  { pilotAgent, envoy }: PilotPrograms,
  options: SidecarOptions,
): Promise<{ readonly child: Child; readonly adminUrl: string }> {
  const folder = join(options.folder, "pilot-agent");
  const { variables, adminPort, statusPort } = await sidecarEnvironment(options);
  const { RAMPART_TOKEN_FILE = "" } = variables;
  const { child } = await startPodsPilotAgent(pilotAgent, {
    folder,
    account: `${namespace}/${options.name}`,
    token: await readFile(RAMPART_TOKEN_FILE, "utf8"),
    ca: options.istiod.address,
    rootFile: options.istiod.rootFile,
    variables,
    // pilot-agent runs Envoy with a template, which may be without any actions: the agent's own bootstrap.
    envoy: {
      program: envoy,
      bootstrap: await printBootstrap(folder, variables),
      adminPort,
      statusPort,
    },
  });
  return { child, adminUrl: `http://127.0.0.1:${adminPort}` };
}

interface PodOptions {
  readonly folder: string;
  /** `namespace/name`. */
  readonly account: string;
  readonly token: string;
  /** `localhost:port` of the CA, or of istiod, which the variables may tell apart. */
  readonly ca: string;
  readonly rootFile: string;
  /** More of its environment, and other values. */
  readonly variables: NodeJS.ProcessEnv;
  /** The words before its own, which start it in another place. */
  readonly inside?: readonly string[];
  /** An Envoy and its bootstrap. Without it the workload is proxyless. */
  readonly envoy?: {
    readonly program: string;
    readonly bootstrap: string;
    readonly adminPort?: number;
    readonly statusPort?: number;
  };
}

export const pilotSocketIn = (folder: string): string =>
  join(folder, "var/run/secrets/workload-spiffe-uds/socket");

/** Starts pilot-agent in a pod's folder. @returns It, and the folder in which it keeps its certificate. */
export async function startPodsPilotAgent(
  program: string,
  { folder, account, token, ca, rootFile, variables, inside = [], envoy }: PodOptions,
): Promise<{ readonly child: Child; readonly certificates: string }> {
  const certificates = join(folder, "certs");
  await mkdir(join(folder, "var/run/secrets/tokens"), { recursive: true });
  await mkdir(certificates);
  await writeFile(join(folder, "var/run/secrets/tokens/istio-token"), token);
  const proxyBootstrapTemplatePath = join(folder, "bootstrap.json");
  if (envoy) await writeFile(proxyBootstrapTemplatePath, envoy.bootstrap);
  const [freePort = 0, health = 0] = await freePorts(2);
  const [namespace, name] = account.split("/");
  const environment = {
    OUTPUT_CERTS: certificates,
    CA_ADDR: ca,
    CA_ROOT_CA: rootFile,
    XDS_ROOT_CA: rootFile,
    POD_NAME: name,
    POD_NAMESPACE: namespace,
    SERVICE_ACCOUNT: name,
    INSTANCE_IP: "127.0.0.1",
    ENVOY_STATUS_PORT: String(health),
    ...(!envoy && { DISABLE_ENVOY: "true" }),
    ...variables,
    PROXY_CONFIG: JSON.stringify({
      discoveryAddress: ca,
      statusPort: envoy?.statusPort ?? freePort,
      ...(envoy && {
        binaryPath: envoy.program,
        proxyBootstrapTemplatePath,
        proxyAdminPort: envoy.adminPort,
        concurrency: 1,
      }),
    }),
  };
  const words = ["proxy", "sidecar", "--domain", `${namespace}.svc.cluster.local`];
  const options = { logFile: join(folder, "log"), environment, folder };
  const [command = "", ...values] = [...inside, program, ...words, "--log_target=stderr"];
  const child = startChild(command, values, options);
  return { child, certificates };
}

async function printBootstrap(folder: string, variables: NodeJS.ProcessEnv): Promise<string> {
  const sockets = {
    RAMPART_XDS_SOCKET: join(folder, "etc/istio/proxy/XDS"),
    RAMPART_SDS_SOCKET: join(folder, "var/run/secrets/workload-spiffe-uds/socket"),
  };
  const environment = { ...variables, ...sockets };
  return runRampart(["agent", "bootstrap", "--xds"], { environment });
}

/** The names of what istiod has configured an Envoy with. */
export async function configuredNames(adminUrl: string): Promise<readonly string[]> {
  const read = async (path: string): Promise<string> => (await fetch(adminUrl + path)).text();
  const [listeners, clusters] = await Promise.all([read("/listeners"), read("/clusters")]);
  const names = [...clusters.matchAll(/^(.+?)::default_priority::max_connections/gm)];
  // Ports of the two Envoys' own listeners differ.
  const ports = [...listeners.matchAll(/^(\S+?)::(?!0\.0\.0\.0:)/gm)];
  return [...names, ...ports].map(([, name = ""]) => name).toSorted();
}
