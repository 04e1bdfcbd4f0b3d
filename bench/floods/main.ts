import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { createCluster, createWorkload, type Workload } from "../workload.ts";
import { callHonestly, partInTime } from "./honest-caller.ts";
import { methods } from "./methods.ts";
import { type Server, startGateway, startServe } from "./servers.ts";

/** What must hold while strangers flood: the part of the calls in time, the memory in MiB, what of it stays. */
const budget = { inTime: 0.99, memory: 160, growth: 1.2 };

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "30" },
    after: { type: "string", default: "60" },
    method: { type: "string" },
    server: { type: "string" },
  },
});

interface Outcome {
  readonly method: string;
  readonly server: string;
  readonly calls: number;
  readonly inTime: number;
  readonly slowest: number;
  readonly memoryBefore: number;
  readonly memoryPeak: number;
  readonly memoryAfter: number;
  readonly hasEnded: boolean;
}

const names = [...methods.keys()].filter((name) => name.includes(values.method ?? ""));
const servers = ["serve", "gateway"].filter((name) => name.includes(values.server ?? ""));
const header = [
  "METHOD",
  "SERVER",
  "CALLS",
  "IN TIME",
  "SLOWEST",
  "MIB BEFORE",
  "PEAK",
  "AFTER",
  "",
];
console.log(row(header));
let areKept = true;
for (const method of names) {
  for (const server of servers) {
    const outcome = await play(server, method);
    areKept &&= isKept(outcome);
    console.log(row(cells(outcome)));
  }
}
process.exitCode = areKept ? 0 : 1;

/** A fresh server for each method, so that one flood leaves nothing for the next. */
async function play(name: string, method: string): Promise<Outcome> {
  const folder = await mkdtemp(join(tmpdir(), "rampart-floods-"));
  const cluster = await createCluster("https://bench.example", "RS256");
  const workload = await createWorkload(cluster);
  const ca = await startServe(join(folder, "ca"), cluster);
  const front =
    name === "serve" ? ca : await startGateway(join(folder, "gateway"), ca.plaintextPort, workload);
  try {
    return await flood(name, front, method, workload);
  } finally {
    await front.end();
    await ca.end();
    await rm(folder, { recursive: true, force: true });
  }
}

async function flood(
  name: string,
  server: Server,
  method: string,
  { token, message }: Workload,
): Promise<Outcome> {
  const headers = { authorization: `Bearer ${token}`, clusterid: "Kubernetes" };
  const frame = Buffer.concat([Buffer.alloc(5), message]);
  frame.writeUInt32BE(message.length, 1);
  const call = (seconds: number) =>
    callHonestly(server.port, headers, frame, AbortSignal.timeout(1000 * seconds));
  await call(5);
  const memoryBefore = server.memory();
  let memoryPeak = memoryBefore;
  const sampling = setInterval(() => {
    if (!server.hasEnded()) memoryPeak = Math.max(memoryPeak, server.memory());
  }, 100);
  const flooder = startFlooder(method, server.port, values.seconds);
  // The flood is at its height before the first call counts.
  await sleep(1000);
  const latencies = await call(Number(values.seconds) - 1);
  await flooder;
  if (!server.hasEnded()) await sleep(1000 * Number(values.after));
  clearInterval(sampling);
  return {
    method,
    server: name,
    calls: latencies.length,
    inTime: partInTime(latencies),
    slowest: Math.max(...latencies),
    memoryBefore,
    memoryPeak,
    memoryAfter: server.hasEnded() ? Number.NaN : server.memory(),
    hasEnded: server.hasEnded(),
  };
}

async function startFlooder(method: string, port: number, seconds: string): Promise<void> {
  const program = fileURLToPath(new URL("flooder.ts", import.meta.url));
  const child = spawn(process.execPath, [program, method, String(port), seconds], {
    stdio: "ignore",
  });
  await once(child, "exit");
}

function isKept({ inTime, memoryBefore, memoryPeak, memoryAfter, hasEnded }: Outcome): boolean {
  const { growth, memory } = budget;
  const isBack = memoryAfter <= growth * memoryBefore;
  return !hasEnded && inTime >= budget.inTime && memoryPeak <= memory && isBack;
}

function cells(outcome: Outcome): string[] {
  const { method, server, calls, inTime, slowest, hasEnded } = outcome;
  return [
    method,
    server,
    String(calls),
    `${(100 * inTime).toFixed(1)} %`,
    `${slowest.toFixed(0)} ms`,
    outcome.memoryBefore.toFixed(0),
    outcome.memoryPeak.toFixed(0),
    outcome.memoryAfter.toFixed(0),
    isKept(outcome) ? "within" : hasEnded ? "ENDED" : "MISSED",
  ];
}

function row(texts: readonly string[]): string {
  const widths = [30, 8, 6, 8, 10, 11, 6, 6, 7];
  return texts
    .map((text, i) => (i < 2 ? text.padEnd(widths[i] ?? 0) : text.padStart(widths[i] ?? 0)))
    .join(" ");
}
