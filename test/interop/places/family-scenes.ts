import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { startRelay } from "../../testkit/network/relay.ts";
import { type Child, run } from "../../testkit/programs/child-process.ts";
import { launchRampart, program } from "../../testkit/programs/rampart-process.ts";
import { until } from "../../testkit/time/until.ts";
import { startWorkload } from "../agent/envoy-pair.ts";
import type { AgentProcess } from "../agent/processes/agent-process.ts";
import { statusOf } from "../agent/processes/steady-load.ts";
import { startWithBootstrap } from "../agent/supervision.ts";
import { compareBootstraps } from "../agent/xds/istio-bootstrap.ts";
import { startPodsPilotAgent } from "../agent/xds/pilot-agent.ts";
import { istiodName } from "../native-grpc/mesh.ts";
import { type Outcome, playRows } from "../outcome-table.ts";
import { type ServingCa, startServingCa } from "../serving-ca.ts";
import { startControlPlane } from "./control-plane.ts";
import type { Stage } from "./inside.ts";
import { type Pod, saidBy, servers, startPod } from "./network.ts";

const caPort = 15_012;
const inboundPort = 15_006;
const identity = (name: string): string => `spiffe://cluster.local/ns/mesh/sa/${name}`;

interface FamilyStage extends Stage {
  readonly ca: ServingCa;
}

/** Pods with IPv6 alone, with IPv4 alone, and with both of which one swallows packets. */
export async function familyScenes({ folder, programs }: Stage): Promise<Outcome[]> {
  const ca = await startServingCa(join(folder, "ca-of-families"), {
    values: {
      LISTEN: `[::]:${caPort}`,
      SERVING_NAMES: ["dual.example", "swallowed.example", istiodName],
    },
  });
  const stage = { folder, programs, ca };
  const workload = await startWorkload();
  const peer = await startPeer(stage, workload.port);
  const [six, four, both] = [
    await startPod(6, ["v6"], { v6: `${servers.v6}/128` }),
    await startPod(4, ["v4"], { v4: "10.88.0.0/24" }),
    await startPod(46, ["v4", "v6"], { v4: "10.88.0.0/24", v6: "fd99::/64" }),
  ];
  const names = { client: "Envoy 1.40.0 in a pod", server: "rampart agent" };
  const outcomes = [
    ...(await playRows(names, [
      [
        "IPv6 alone: outbound by a name with both families",
        () => outbound(stage, six, "dual.example"),
      ],
      [
        "IPv6 alone: what kubelet and Prometheus reach, as under pilot-agent",
        () => ports(stage, six),
      ],
      [
        "IPv4 alone: outbound by a name with both families",
        () => outbound(stage, four, "dual.example"),
      ],
      [
        "both, of which IPv6 swallows packets: outbound by such a name",
        () => outbound(stage, both, "swallowed.example"),
      ],
    ])),
    await compareBootstraps(folder, { address: six.address.v6, inside: six.inside }),
  ];
  await peer.end();
  await workload.close();
  for (const pod of [six, four, both]) pod.end();
  await ca.end();
  return outcomes;
}

async function variablesOf({ folder, ca }: FamilyStage, name: string, host: string) {
  const own = join(folder, `of-${name}`);
  await mkdir(own, { recursive: true });
  return {
    own,
    environment: {
      CA_ADDR: `${host}:${caPort}`,
      CA_ROOT_CA: ca.rootFile,
      POD_NAMESPACE: "mesh",
      SERVICE_ACCOUNT: name,
      RAMPART_TOKEN_FILE: await ca.tokenFile(`mesh/${name}`),
      RAMPART_SDS_SOCKET: join(own, "sds"),
      RAMPART_BUNDLE_URL: `https://${host}:${caPort}/bundle.json`,
      TERMINATION_DRAIN_DURATION_SECONDS: "0",
    },
  };
}

let baseId = process.pid * 4;

/** An Envoy that takes mutual TLS at every address of the suite's network. */
async function startPeer(stage: FamilyStage, port: number): Promise<AgentProcess> {
  const { own: folder, environment: variables } = await variablesOf(stage, "b", "dual.example");
  const listeners = ["0.0.0.0", "[::]"].flatMap((host) => [
    "--inbound",
    `${host}:${inboundPort}=127.0.0.1:${port}`,
  ]);
  const options = { envoy: stage.programs.envoy, folder, baseId: baseId++, variables };
  return startWithBootstrap(options, [...listeners, "--allow", identity("a")]);
}

const inPod = ({ inside }: Pod, ...words: readonly string[]) => {
  const [nsenter = "", ...values] = inside;
  return [nsenter, [...values, ...words]] as const;
};

/** An agent and its Envoy in the pod call a peer by its name. */
async function outbound(stage: FamilyStage, pod: Pod, host: string): Promise<string> {
  const { own, environment } = await variablesOf(stage, "a", host);
  const listener = `127.0.0.1:9001=${host}:${inboundPort}=${identity("b")}`;
  const bootstrap = [process.execPath, program, "agent", "bootstrap", "--outbound", listener];
  const printed = await run(...inPod(pod, ...bootstrap), { environment });
  if (printed.exitCode !== 0) throw new Error(`bootstrap ${saidBy(printed)}`);
  const file = join(own, "envoy.json");
  await writeFile(file, printed.stdout);
  const { envoy } = stage.programs;
  const proxy = [envoy, "-c", file, "--base-id", `${baseId++}`, "--concurrency", "1"];
  const agent = launchRampart(["agent", "run", "--", ...proxy], {
    environment,
    command: [...pod.inside, process.execPath, program],
  });
  const ask = async (): Promise<string> => {
    const asked = ["curl", "-s", "-w", " %{http_code}", "http://127.0.0.1:9001/"];
    return (await run(...inPod(pod, ...asked))).stdout.trim();
  };
  const isServed = (answer: string): boolean => answer.endsWith(" 200");
  try {
    await until("a first answer", async () => isServed(await ask())).catch(async (error) => {
      throw new Error(`${error}: ${await ask()}; ${agent.lines.slice(-3).join(" / ")}`);
    });
    const answers: string[] = [];
    for (let i = 0; i < 6; i++) answers.push(await ask());
    if (!answers.every(isServed)) throw new Error(answers.join(", "));
    const attempts = agent.lines.filter((line) => line.includes('"csr-retried"')).length;
    if (attempts > 0) throw new Error(`the certificate took ${attempts + 1} attempts`);
    return "a certificate at the first attempt, 6 of 6 requests";
  } finally {
    await agent.end();
  }
}

const envoyPorts = [15_000, 15_021, 15_090];
const statusPort = 15_020;

/** What listens at Envoy's own ports in the pod: `6` or `4`, the address in hexadecimal, and the port. */
async function listening(pod: Pod): Promise<readonly string[]> {
  const files = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];
  const { stdout } = await run(...inPod(pod, "cat", ...files));
  const sockets = [...stdout.matchAll(/^\s*\d+: ([0-9A-F]+):([0-9A-F]{4}) \S+ 0A /gm)];
  return sockets
    .map(([, address = "", port = ""]) => [address, Number.parseInt(port, 16)] as const)
    .filter(([, port]) => envoyPorts.includes(port))
    .map(([address, port]) => `${address}:${port}`)
    .toSorted();
}

/** Envoy under pilot-agent, and then under the agent, in a pod where a control plane configures it. */
async function ports(stage: FamilyStage, pod: Pod): Promise<string> {
  const { own, environment } = await variablesOf(stage, "six", "dual.example");
  const plane = await startControlPlane(stage.programs.plane, own, "127.0.0.1:9901");
  // A way from the servers' IPv6 address to a port of this machine.
  const relay = await startRelay(plane.port, servers.v6);
  const discoveryAddress = `dual.example:${relay.port}`;
  const shared = {
    ...environment,
    INSTANCE_IP: pod.address.v6,
    POD_NAME: "six",
    XDS_ROOT_CA: plane.rootFile,
    ISTIOD_SAN: istiodName,
  };
  try {
    const expected = await underPilotAgent(stage, pod, { own, shared, discoveryAddress });
    const found = await underAgent(stage, pod, { own, shared, discoveryAddress });
    if (found.join() !== expected.join())
      throw new Error(`${found.join(", ")} in place of ${expected.join(", ")}`);
    return `${found.join(", ")}; a scrape and a probe: 200`;
  } finally {
    relay.close();
    await plane.end();
  }
}

/** An Envoy whose listeners come from a control plane. */
interface Discovered {
  readonly own: string;
  readonly shared: NodeJS.ProcessEnv;
  readonly discoveryAddress: string;
}

async function untilListening(pod: Pod, child: Child, count: number): Promise<readonly string[]> {
  await until(`${count} ports`, async () => (await listening(pod)).length === count).catch(
    async (error) => {
      const said = child.lines.slice(-3).join(" / ");
      throw new Error(`${error}: ${await listening(pod)}; ${said}`);
    },
  );
  return listening(pod);
}

async function underPilotAgent(
  { programs, ca }: FamilyStage,
  pod: Pod,
  { own, shared, discoveryAddress }: Discovered,
): Promise<readonly string[]> {
  const account = "mesh/six";
  const { child } = await startPodsPilotAgent(programs.pilotAgent, {
    folder: join(own, "pilot"),
    account,
    token: await ca.mesh.token({ account }),
    ca: discoveryAddress,
    rootFile: ca.rootFile,
    variables: { ...shared, ENVOY_STATUS_PORT: undefined },
    inside: pod.inside,
    envoy: {
      program: programs.envoy,
      bootstrap: await readFile(programs.template, "utf8"),
      statusPort,
    },
  });
  try {
    return await untilListening(pod, child, envoyPorts.length);
  } finally {
    await child.end();
    await untilListening(pod, child, 0);
  }
}

async function underAgent(
  { programs }: FamilyStage,
  pod: Pod,
  { own, shared, discoveryAddress }: Discovered,
): Promise<readonly string[]> {
  const proxy = [programs.envoy, "--base-id", `${baseId++}`];
  const agent = launchRampart(["agent", "run", "--", ...proxy], {
    environment: {
      ...shared,
      PROXY_CONFIG: JSON.stringify({
        discoveryAddress,
        statusPort,
        concurrency: 1,
        configPath: own,
      }),
      RAMPART_XDS_SOCKET: join(own, "xds"),
      RAMPART_STATUS_ADDR: ":15020",
    },
    folder: own,
    command: [...pod.inside, process.execPath, program],
  });
  try {
    const found = await untilListening(pod, agent, envoyPorts.length);
    for (const path of ["15090/stats/prometheus", "15021/healthz/ready"]) {
      const url = `http://[${pod.address.v6}]:${path}`;
      await until(url, async () => (await statusOf(url)) === "200").catch(async (error) => {
        const ready = await statusOf(`http://[${pod.address.v6}]:15020/readyz`);
        throw new Error(`${error}: ${await statusOf(url)}; ${ready}`);
      });
    }
    return found;
  } finally {
    await agent.end();
  }
}
