import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { connect } from "node:tls";
import { freePorts } from "../../testkit/network/free-ports.ts";
import { startChild } from "../../testkit/programs/child-process.ts";
import { until } from "../../testkit/time/until.ts";
import { prebuilt, prebuiltIstiod } from "../prebuilt.ts";
import { istiodName } from "./edge-ca.ts";
import type { Outcome } from "./outcome-table.ts";
import { AgentProcess, type AgentVariables } from "./processes/agent-process.ts";
import { statusOf } from "./processes/steady-load.ts";

/** The parts of the scene. */
interface ServingOptions {
  readonly folder: string;
  /** The environment of an agent for istiod's account. */
  readonly variables: AgentVariables;
}

/** Runs a real istiod whose serving certificate the agent keeps in files. */
export async function servingForIstiod(options: ServingOptions): Promise<Outcome> {
  const istiod = await prebuilt(prebuiltIstiod);
  const names = {
    client: "istiod of 2026-08-27",
    server: "rampart agent, serving mode",
    what: "its serving certificate, and the next one without a restart",
  };
  if ("missing" in istiod) return { ...names, result: "NOT RUN", detail: istiod.missing };
  try {
    return { ...names, result: "ok", detail: await serve(istiod.program, options) };
  } catch (error) {
    return { ...names, result: "FAILED", detail: String(error) };
  }
}

async function serve(istiod: string, { folder, variables }: ServingOptions): Promise<string> {
  const [status = 0, xds = 0, http = 0, https = 0, monitoring = 0] = await freePorts(5);
  const files = join(folder, "istiod-tls");
  const agent = new AgentProcess(folder, { ...variables, RAMPART_SERVING_CERTS: files }, status);
  agent.start();
  await agent.ready();
  await mkdir(join(folder, "istiod-config"));
  await writeFile(join(folder, "istiod-mesh.yaml"), "{}\n");
  const values = [
    "discovery",
    "--registries=",
    `--configDir=${join(folder, "istiod-config")}`,
    `--meshConfig=${join(folder, "istiod-mesh.yaml")}`,
    `--secureGRPCAddr=127.0.0.1:${xds}`,
    "--grpcAddr=",
    `--httpAddr=127.0.0.1:${http}`,
    `--httpsAddr=127.0.0.1:${https}`,
    `--monitoringAddr=127.0.0.1:${monitoring}`,
    "--ctrlz_port=0",
    `--tlsCertFile=${files}/cert-chain.pem`,
    `--tlsKeyFile=${files}/key.pem`,
    `--caCertFile=${files}/root-cert.pem`,
  ];
  const logFile = join(folder, "istiod-serving.log");
  const child = startChild(istiod, values, {
    logFile,
    environment: { ENABLE_CA_SERVER: "false" },
    folder,
  });
  try {
    await until(
      "istiod",
      async () => (await statusOf(`http://127.0.0.1:${http}/ready`)) === "200",
      120,
    );
    const rootFile = join(files, "root-cert.pem");
    const first = await shownSerial(xds, rootFile);
    await until("the next certificate", async () => {
      return (await shownSerial(xds, rootFile)) !== first;
    });
    return `verified for ${istiodName} by the agent's roots; the next one shown by the same process`;
  } finally {
    await child.end();
    await agent.end();
  }
}

/** The serial number of the certificate that istiod shows. @throws When it does not verify. */
async function shownSerial(port: number, rootFile: string): Promise<string> {
  const ca = await readFile(rootFile);
  return await new Promise((resolve, reject) => {
    const socket = connect({ port, host: "127.0.0.1", servername: istiodName, ca }, () => {
      resolve(socket.getPeerCertificate().serialNumber);
      socket.destroy();
    });
    socket.on("error", reject);
  });
}
