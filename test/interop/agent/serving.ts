import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { connect } from "node:tls";
import { createTestAuthority } from "../../testkit/agent/test-authority.ts";
import { freePorts } from "../../testkit/network/free-ports.ts";
import { until } from "../../testkit/time/until.ts";
import { mountSecret } from "../mounted-secret.ts";
import { istiodName } from "../native-grpc/mesh.ts";
import { type Outcome, shown } from "../outcome-table.ts";
import { prebuilt, prebuiltIstiod } from "../prebuilt.ts";
import { required } from "../software.ts";
import { AgentProcess, type AgentVariables } from "./processes/agent-process.ts";
import { startIstiod } from "./xds/istiod.ts";

interface ServingOptions {
  readonly folder: string;
  /** The environment of an agent for istiod's account. */
  readonly variables: AgentVariables;
}

/** Runs a real istiod whose serving certificate the agent keeps in files. */
export async function servingForIstiod(options: ServingOptions): Promise<Outcome> {
  const claim = {
    client: "istiod of 2026-08-27",
    server: "rampart agent, serving mode",
    what: "its serving certificate, the next one, and another root alone, without a restart",
  };
  return shown(claim, async () => serve(await required(prebuilt(prebuiltIstiod)), options));
}

async function serve(program: string, options: ServingOptions): Promise<string> {
  const folder = join(options.folder, "istiod");
  await mkdir(folder);
  const files = join(folder, "tls");
  const [status = 0] = await freePorts(1);
  const environment = { ...options.variables, RAMPART_SERVING_CERTS: files };
  const agent = new AgentProcess(options.folder, environment, status);
  agent.start();
  await agent.ready();
  const rootFile = join(files, "root-cert.pem");
  const istiod = await startIstiod({
    program,
    folder,
    issuer: "https://cluster.test",
    variables: { ENABLE_CA_SERVER: "false" },
    words: [
      `--tlsCertFile=${files}/cert-chain.pem`,
      `--tlsKeyFile=${files}/key.pem`,
      `--caCertFile=${rootFile}`,
    ],
  });
  const port = Number(istiod.address.split(":").at(-1));
  const reloads = async (): Promise<number> =>
    (await readFile(istiod.logFile, "utf8")).split("Istiod certificates are reloaded").length;
  try {
    const first = await shownSerial(port, rootFile);
    await until("the next certificate", async () => (await shownSerial(port, rootFile)) !== first);
    await agent.end();
    const before = await reloads();
    // docs/how-to/point-istio-at-rampart.md says that it reads the file again. Without a cluster, its log alone shows that.
    const read = async (name: string) => [name, await readFile(join(files, name), "utf8")] as const;
    const kept = await Promise.all(["cert-chain.pem", "key.pem", "root-cert.pem"].map(read));
    const { pem } = await createTestAuthority("next");
    const added = kept.map(([name, text]) => [name, name === "root-cert.pem" ? text + pem : text]);
    await mountSecret(files, Object.fromEntries(added));
    await until("a reload", async () => (await reloads()) > before);
    return `verified for ${istiodName} by the agent's roots; the next one shown, and another root read, by the same process`;
  } finally {
    await istiod.end();
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
