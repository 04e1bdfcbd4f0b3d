import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { generateSubjectKey, privateKeyPem } from "../../../src/agent/identity/x509-svid.ts";
import { createTestAuthority } from "../../testkit/agent/test-authority.ts";
import { freePorts } from "../../testkit/network/free-ports.ts";
import { until } from "../../testkit/time/until.ts";
import { startEnvoyPair } from "../agent/envoy-pair.ts";
import type { Outcome } from "../agent/outcome-table.ts";
import { AgentProcess } from "../agent/processes/agent-process.ts";
import { SteadyLoad, statusOf } from "../agent/processes/steady-load.ts";
import { startPlacedCa } from "./ca.ts";
import { playAll, type Stage } from "./inside.ts";
import { servers } from "./network.ts";

/** A life that lasts for some renewals, and ends soon enough to wait for its end. */
const leafSeconds = 20;
const spiffeId = (name: string): string => `spiffe://cluster.local/ns/mesh/sa/${name}`;

/**
 * The environment of Istio's package for virtual machines: `PROV_CERT` is `OUTPUT_CERTS`, and there is a token. In the
 * folder is the certificate of another CA at first, which is no credential.
 */
export async function machineScenes({ folder, programs }: Stage): Promise<Outcome[]> {
  const ca = await startPlacedCa(join(folder, "ca-of-machine"), servers.v4, {
    DEFAULT_WORKLOAD_CERT_TTL: `${leafSeconds}s`,
    MAX_WORKLOAD_CERT_TTL: `${leafSeconds}s`,
    AUTHORITY_LIFETIME: `${6 * leafSeconds}s`,
  });
  const [agents, sockets] = [[], []] as [AgentProcess[], string[]];
  for (const name of ["a", "b"] as const) {
    const certs = join(folder, `certs-${name}`);
    await mkdir(certs);
    await writeForeign(certs, name);
    const [status = 0] = await freePorts(1);
    const socket = join(folder, `sds-vm-${name}`);
    const agent = new AgentProcess(
      folder,
      {
        CA_ADDR: `ca.example:${ca.port}`,
        CA_ROOT_CA: ca.rootsFile,
        POD_NAMESPACE: "mesh",
        SERVICE_ACCOUNT: name,
        SECRET_TTL: `${leafSeconds}s`,
        SECRET_GRACE_PERIOD_RATIO: "0.6",
        RAMPART_TOKEN_FILE: await ca.tokenFile(`mesh/${name}`),
        RAMPART_SDS_SOCKET: socket,
        RAMPART_BUNDLE_URL: `https://ca.example:${ca.port}/bundle.json`,
        PROV_CERT: certs,
        OUTPUT_CERTS: certs,
      },
      status,
    );
    agent.start();
    agents.push(agent);
    sockets.push(socket);
  }
  await Promise.all(agents.map((agent) => agent.ready()));
  const [a = "", b = ""] = sockets;
  const envoys = await startEnvoyPair({
    envoy: programs.envoy,
    folder,
    baseId: process.pid * 4 + 50,
    a: { socket: a },
    b: { socket: b },
  });
  await until("a first answer", async () => (await statusOf(envoys.freshUrl)) === "200");
  const load = new SteadyLoad([envoys.keptUrl, envoys.freshUrl, envoys.freshUrl]);
  const stage = { ca, agents, load };
  const outcomes = await playAll(
    { client: "Envoy 1.40.0, twice", server: "rampart agent on a virtual machine, serve" },
    [
      ["three renewals, each by the last certificate", () => renewals(stage)],
      ["a rotation of the authority", () => rotation(stage)],
      ["the authority is tainted, its root leaves at once", () => suddenTaint(stage)],
    ],
  );
  await load.stop();
  await Promise.all([envoys.end(), ...agents.map((agent) => agent.end())]);
  await ca.end();
  return outcomes;
}

interface MachineStage {
  readonly ca: Awaited<ReturnType<typeof startPlacedCa>>;
  readonly agents: readonly AgentProcess[];
  readonly load: SteadyLoad;
}

async function writeForeign(certs: string, name: string): Promise<void> {
  const stranger = await createTestAuthority("stranger");
  const { publicKey, privateKey } = await generateSubjectKey({ kind: "EC", curve: "P-256" });
  const day = 86_400_000;
  const validity = { notBefore: new Date(Date.now() - day), notAfter: new Date(Date.now() + day) };
  await writeFile(join(certs, "key.pem"), privateKeyPem(privateKey, true));
  const chain = await stranger.issue(spiffeId(name), publicKey, validity);
  await writeFile(join(certs, "cert-chain.pem"), chain);
}

/** How many requests there were since the last look. @throws Error if one failed. */
function requireServed({ load }: MachineStage): string {
  const { requests, failures } = load.take();
  const detail = `${requests} requests, ${failures.length} failed`;
  if (failures.length > 0 || requests === 0) throw new Error(`${detail}, first ${failures[0]}`);
  return detail;
}

async function renewals(stage: MachineStage): Promise<string> {
  const seen = new Set<string>();
  await until(
    "four certificates",
    async () => {
      for (const agent of stage.agents.slice(0, 1)) {
        const { identities } = await agent.status();
        seen.add(identities[0]?.notAfter ?? "");
      }
      return seen.size >= 4;
    },
    120,
  );
  const proofs = stage.ca.proofs();
  // Each agent had a foreign certificate in its folder, which counts as none beside its token.
  if (proofs.token !== stage.agents.length || proofs.certificate < 4)
    throw new Error(`proofs: ${JSON.stringify(proofs)}`);
  return `${proofs.token} certificates by token, ${proofs.certificate} by certificate; ${requireServed(stage)}`;
}

const rootsOf = async (agent: AgentProcess): Promise<readonly string[]> =>
  (await agent.status()).roots.map(({ sha256 }) => sha256);

async function untilGone({ agents }: MachineStage, root: string, seconds: number): Promise<void> {
  for (const agent of agents)
    await until("the root is gone", async () => !(await rootsOf(agent)).includes(root), seconds);
}

async function rotation(stage: MachineStage): Promise<string> {
  const [agent] = stage.agents;
  const [first = ""] = agent ? await rootsOf(agent) : [];
  await stage.ca.verb("authority", "rotate", "--yes");
  await untilGone(stage, first, 300);
  return `the old root is gone; ${requireServed(stage)}`;
}

/** Requests may fail from the taint until both sides have the next certificate, and none after that. */
async function suddenTaint(stage: MachineStage): Promise<string> {
  const listed = JSON.parse(await stage.ca.verb("authority", "list", "--json")) as readonly {
    readonly id: string;
    readonly phase: string;
  }[];
  const signing = listed.find(({ phase }) => phase === "signing");
  const [agent] = stage.agents;
  const before = agent ? await rootsOf(agent) : [];
  requireServed(stage);
  const begun = performance.now();
  await stage.ca.verb("authority", "taint", signing?.id ?? "", "--root", "immediately", "--yes");
  await until(
    "the root is gone",
    async () =>
      (await Promise.all(stage.agents.map(rootsOf))).every(
        (roots) => !before.every((each) => roots.includes(each)),
      ),
    leafSeconds,
  );
  await Promise.all(stage.agents.map((each) => each.ready()));
  // What was under way ends, and Envoy has what the agents have.
  await sleep(500);
  const instant = stage.load.take();
  const seconds = ((performance.now() - begun) / 1000).toFixed(1);
  await sleep(leafSeconds * 1000);
  const after = requireServed(stage);
  return `${instant.failures.length} of ${instant.requests} failed within ${seconds} s of the taint, verb included; then ${after} within a life of a leaf`;
}
