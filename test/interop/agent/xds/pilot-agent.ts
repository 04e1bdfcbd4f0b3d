import { copyFile, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type Child, startChild } from "../../../testkit/programs/child-process.ts";
import { runRampart } from "../../../testkit/programs/rampart-process.ts";
import { type SidecarOptions, sidecarEnvironment } from "./sidecar.ts";

export const prebuiltPilotAgent = {
  name: "pilot-agent",
  sha256: "de99534b851500e87e6fe83a2d3e60228b2cde4a977e0dfc3a4ff8e84f6f6182",
};

/** The programs of a sidecar under pilot-agent. */
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
  await mkdir(join(folder, "var/run/secrets/tokens"), { recursive: true });
  const { variables, adminPort, statusPort } = await sidecarEnvironment(options);
  const { RAMPART_TOKEN_FILE = "", DISCOVERY_ADDRESS: discoveryAddress } = variables;
  await copyFile(RAMPART_TOKEN_FILE, join(folder, "var/run/secrets/tokens/istio-token"));
  const template = join(folder, "bootstrap.json");
  // pilot-agent runs Envoy with a template, which may be without any actions: the agent's own bootstrap.
  await writeFile(template, await printBootstrap(folder, variables));
  const environment = {
    ...variables,
    PROXY_CONFIG: JSON.stringify({
      discoveryAddress,
      binaryPath: envoy,
      proxyBootstrapTemplatePath: template,
      proxyAdminPort: adminPort,
      statusPort,
      concurrency: 1,
    }),
  };
  const values = ["proxy", "sidecar", "--domain", "foo.svc.cluster.local"];
  const logFile = join(options.folder, "pilot-agent.log");
  const child = startChild(pilotAgent, [...values, "--log_target=stderr"], {
    logFile,
    environment,
    folder,
  });
  return { child, adminUrl: `http://127.0.0.1:${adminPort}` };
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
