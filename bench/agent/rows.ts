import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { AgentStatus } from "../../src/agent/status/agent-status.ts";
import { lastingFolder } from "../../test/testkit/temporary-folder.ts";
import { startEdge } from "../edge/edge.ts";
import { cpuMicroseconds } from "../measurement/process-cpu.ts";
import type { Row } from "../measurement/report.ts";
import { createCluster } from "../workload.ts";

const identityCount = 1000;
const timeoutSeconds = 120;

/** The cost of a thousand identities in node mode of `rampart agent`, and the spread of their renewals. */
export async function agentRows(): Promise<Row[]> {
  const cluster = await createCluster("https://node.example", "ES256");
  const { issuer, keySet: jwks } = cluster;
  const node = { issuer, jwks, trusted_node_accounts: ["foo/httpbin"], node_reach: "anywhere" };
  const edge = await startEdge({ issuers: [node] });
  const folder = await lastingFolder();
  await writeFile(join(folder, "token"), await cluster.mintToken("bench"));
  await writeFile(join(folder, "workloads"), workloads());
  const port = await freePort();
  let agent: ChildProcess | undefined;
  try {
    await edge.send("/bench/first-authority", {}, "");
    const begin = performance.now();
    agent = startAgent(folder, edge.url, port);
    const pid = agent.pid ?? 0;
    const status = await allObtained(`http://127.0.0.1:${port}/status`);
    const seconds = (performance.now() - begin) / 1000;
    const cpu = cpuMicroseconds(pid);
    await sleep(2_000);
    const idle = cpuMicroseconds(pid) - cpu;
    return rowsOf(status, { seconds, cpu, idle, peak: peakMemory(pid) });
  } finally {
    agent?.kill();
    await edge.close();
  }
}

interface Cost {
  readonly seconds: number;
  readonly cpu: number;
  /** Microseconds of CPU in two seconds without work. */
  readonly idle: number;
  readonly peak: number;
}

function rowsOf({ identities }: AgentStatus, { seconds, cpu, idle, peak }: Cost): Row[] {
  const renewals = identities.map(({ nextAttempt }) => Date.parse(nextAttempt));
  const spread = (Math.max(...renewals) - Math.min(...renewals)) / 60_000;
  const of = `of ${identityCount} identities of a node`;
  return [
    { name: `first certificates ${of}`, value: seconds, unit: "s" },
    { name: `CPU of the agent for each ${of}`, value: cpu / identityCount, unit: "µs" },
    { name: "CPU of the agent at rest, of one core", value: idle / 20_000, unit: "%" },
    { name: `peak memory of the agent ${of}`, value: peak, unit: "MiB" },
    { name: `renewals ${of} are spread over`, value: spread, unit: "min" },
  ];
}

/** Each workload has an identity of its own, the worst case for a node. */
function workloads(): string {
  return Array.from({ length: identityCount }, (_, i) => `pod-${i} bench account-${i}\n`).join("");
}

function startAgent(folder: string, caUrl: URL, port: number): ChildProcess {
  return spawn(process.execPath, ["src/cli/main.ts", "agent", "run"], {
    stdio: ["ignore", "ignore", "ignore"],
    env: {
      ...process.env,
      CA_ADDR: caUrl.origin,
      RAMPART_TOKEN_FILE: join(folder, "token"),
      RAMPART_WORKLOADS: join(folder, "workloads"),
      RAMPART_SDS_SOCKET: join(folder, "sds"),
      RAMPART_STATUS_ADDR: `127.0.0.1:${port}`,
    },
  });
}

async function allObtained(url: string): Promise<AgentStatus> {
  const deadline = performance.now() + timeoutSeconds * 1000;
  while (performance.now() < deadline) {
    const response = await fetch(url).catch(() => undefined);
    const status = (await response?.json()) as AgentStatus | undefined;
    if (status?.isReady && status.identities.length === identityCount) return status;
    await sleep(1_000);
  }
  throw new Error(`the agent did not get every certificate within ${timeoutSeconds} s`);
}

function peakMemory(pid: number): number {
  return Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1024;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  return port;
}
