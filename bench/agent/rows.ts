import { type ChildProcess, spawn } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { bundlePackage } from "../../dev/package/bundle.ts";
import { deployedEnvironment } from "../../dev/package/deployed-environment.ts";
import { memoryMebibytes } from "../../dev/package/deployed-program.ts";
import { agentFlags, heapFlags } from "../../dev/package/node-flags.ts";
import type { AgentStatus } from "../../src/agent/agent-status.ts";
import { freePorts } from "../../test/testkit/network/free-ports.ts";
import { lastingFolder } from "../../test/testkit/temporary-folder.ts";
import { startEdge } from "../edge/edge.ts";
import { startServe } from "../floods/servers.ts";
import { cpuMicroseconds } from "../measurement/process-cpu.ts";
import type { Row } from "../measurement/report.ts";
import { type Cluster, createCluster } from "../workload.ts";

const identityCount = 1000;
const timeoutSeconds = 120;

/** The memory of an idle `rampart agent`, the cost of a thousand identities in node mode, and the spread of their renewals. */
export async function agentRows(): Promise<Row[]> {
  const cluster = await createCluster("https://node.example", "ES256");
  const { issuer, keySet: jwks } = cluster;
  const node = { issuer, jwks, trusted_node_accounts: ["foo/httpbin"], node_reach: "anywhere" };
  const edge = await startEdge({ issuers: [node] });
  const folder = await lastingFolder();
  await writeFile(join(folder, "token"), await cluster.mintToken("bench"));
  await writeFile(join(folder, "workloads"), workloads());
  await bundlePackage(join(folder, "dist"));
  await writeFile(join(folder, "package.json"), '{ "type": "module" }');
  const alone = await idleMebibytes(folder, cluster);
  const [port = 0] = await freePorts(1);
  let agent: ChildProcess | undefined;
  try {
    await edge.send("/bench/first-authority", {}, "");
    const begin = performance.now();
    const RAMPART_WORKLOADS = join(folder, "workloads");
    agent = startAgent(folder, port, { CA_ADDR: edge.url.origin, RAMPART_WORKLOADS });
    const pid = agent.pid ?? 0;
    const status = await allObtained(port, identityCount);
    const seconds = (performance.now() - begin) / 1000;
    const cpu = cpuMicroseconds(pid);
    await sleep(2_000);
    const idle = cpuMicroseconds(pid) - cpu;
    return rowsOf(status, { seconds, cpu, idle, alone, peak: memoryMebibytes(pid, "VmHWM") });
  } finally {
    agent?.kill();
    await edge.close();
  }
}

/** The memory of a sidecar's agent that has its certificate by native gRPC, and rests. */
async function idleMebibytes(folder: string, cluster: Cluster): Promise<number> {
  const ca = await startServe(join(folder, "ca"), cluster);
  const roots = join(folder, "roots.pem");
  const [port = 0] = await freePorts(1);
  let agent: ChildProcess | undefined;
  try {
    await writeFile(roots, await publishedRoots(ca.plaintextPort));
    agent = startAgent(folder, port, {
      CA_ADDR: `localhost:${ca.port}`,
      CA_ROOT_CA: roots,
      POD_NAMESPACE: "foo",
      SERVICE_ACCOUNT: "httpbin",
    });
    await allObtained(port, 1);
    // V8 gives back what the start took after half a minute of rest.
    await sleep(45_000);
    return memoryMebibytes(agent.pid, "VmRSS");
  } finally {
    agent?.kill();
    await ca.end();
  }
}

/** The roots of a CA, as soon as its first authority signs. */
async function publishedRoots(port: number): Promise<string> {
  for (;;) {
    const answer = await fetch(`http://127.0.0.1:${port}/bundle.pem`);
    if (answer.ok) return answer.text();
    await sleep(500);
  }
}

interface Cost {
  readonly seconds: number;
  readonly cpu: number;
  /** Microseconds of CPU in two seconds without work. */
  readonly idle: number;
  /** The memory of an agent with one identity. */
  readonly alone: number;
  readonly peak: number;
}

function rowsOf({ identities }: AgentStatus, { seconds, cpu, idle, alone, peak }: Cost): Row[] {
  const renewals = identities.map(({ nextAttempt }) => Date.parse(nextAttempt));
  const spread = (Math.max(...renewals) - Math.min(...renewals)) / 60_000;
  const of = `of ${identityCount} identities of a node`;
  return [
    { name: `first certificates ${of}`, value: seconds, unit: "s" },
    { name: `CPU of the agent for each ${of}`, value: cpu / identityCount, unit: "µs" },
    { name: "CPU of the agent at rest, of one core", value: idle / 20_000, unit: "%" },
    { name: `peak memory of the agent ${of}`, value: peak, unit: "MiB" },
    { name: "memory of an idle agent, packed", value: alone, unit: "MiB", budget: 70 },
    {
      name: "memory of the agent for each further identity",
      value: (peak - alone) / identityCount,
      unit: "MiB",
      budget: 0.15,
    },
    { name: `renewals ${of} are spread over`, value: spread, unit: "min" },
  ];
}

/** Each workload has an identity of its own, the worst case for a node. */
function workloads(): string {
  return Array.from({ length: identityCount }, (_, i) => `pod-${i} bench account-${i}\n`).join("");
}

/** Starts the agent of the archive as its pod does. */
function startAgent(folder: string, port: number, variables: NodeJS.ProcessEnv): ChildProcess {
  const program = [...agentFlags, join(folder, "dist/rampart.js")];
  return spawn(process.execPath, [...program, "agent", "run"], {
    stdio: ["ignore", "ignore", "ignore"],
    env: {
      // Not what this shell has: a cache of compiled code would take memory, too.
      ...variables,
      ...deployedEnvironment,
      NODE_OPTIONS: heapFlags.agent.join(" "),
      RAMPART_TOKEN_FILE: join(folder, "token"),
      RAMPART_SDS_SOCKET: join(folder, "sds"),
      RAMPART_STATUS_ADDR: `127.0.0.1:${port}`,
    },
  });
}

async function allObtained(port: number, count: number): Promise<AgentStatus> {
  const deadline = performance.now() + timeoutSeconds * 1000;
  while (performance.now() < deadline) {
    const response = await fetch(`http://127.0.0.1:${port}/status`).catch(() => undefined);
    const status = (await response?.json()) as AgentStatus | undefined;
    if (status?.isReady && status.identities.length === count) return status;
    await sleep(1_000);
  }
  throw new Error(`the agent did not get every certificate within ${timeoutSeconds} s`);
}
