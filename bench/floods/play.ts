import { spawn } from "node:child_process";
import { once } from "node:events";
import { loadavg } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { pause } from "../../src/foundation/pause.ts";
import { lastingFolder } from "../../test/testkit/temporary-folder.ts";
import { createCluster, createWorkload, type Workload } from "../workload.ts";
import { extrasFor, revokeMany } from "./extras.ts";
import { callHonestly } from "./honest-caller.ts";
import type { Latencies } from "./latencies.ts";
import type { Outcome } from "./outcome.ts";
import { probe } from "./probe.ts";
import type { Row } from "./rows.ts";
import { type Server, startGateway, startServe } from "./servers.ts";

/** How long a flood takes, unless somebody interrupts it. */
interface Bounds {
  readonly seconds: number;
  readonly interruption: AbortSignal;
}

/** The calls before a flood, in seconds: with them the server has compiled what it needs. */
const warmUp = 5;

/** Floods a fresh server, and ends it when the flood is over. */
export async function play({ method, scene }: Row, bounds: Bounds): Promise<Outcome> {
  await using ended = new AsyncDisposableStack();
  const folder = await lastingFolder();
  const cluster = await createCluster("https://bench.example", "RS256");
  const workload = await createWorkload(cluster);
  const extras = await extrasFor(method);
  ended.defer(extras.end);
  const ca = await startServe(join(folder, "ca"), cluster, extras);
  ended.defer(ca.end);
  if (method.startsWith("CRLs")) await revokeMany(join(folder, "ca", "rampart.toml"), ca);
  let gateway: Server | undefined;
  if (scene.called === "gateway") {
    gateway = await startGateway(join(folder, "gateway"), ca, workload);
    ended.defer(gateway.end);
  }
  const called = gateway ?? ca;
  const server = scene.flooded === "gateway" ? called : ca;
  const memory = sampled(server);
  ended.defer(memory.end);
  await callFor(called, workload, warmUp, bounds);
  const memoryBefore = memory.now();
  const flooding = flood({ method, scene }, server, workload, bounds);
  // The flood is at its height before the first call counts.
  await pause(1000, bounds.interruption);
  const [latencies, probes] = await Promise.all([
    callFor(called, workload, bounds.seconds - 1, bounds),
    probe(server, endAfter(bounds.seconds - 1, bounds)),
  ]);
  await flooding;
  const [load = Number.NaN] = loadavg();
  const figures = { latencies, probes, memoryBefore, memoryPeak: memory.peak(), load };
  const isInterrupted = bounds.interruption.aborted;
  return { method, server: scene.name, ...figures, hasEnded: server.hasEnded(), isInterrupted };
}

function callFor(
  server: Server,
  workload: Workload,
  seconds: number,
  bounds: Bounds,
): Promise<Latencies> {
  return call(server, workload, endAfter(seconds, bounds));
}

const endAfter = (seconds: number, { interruption }: Bounds): AbortSignal =>
  AbortSignal.any([interruption, AbortSignal.timeout(1000 * seconds)]);

function call(server: Server, { token, message }: Workload, end: AbortSignal): Promise<Latencies> {
  const headers = { authorization: `Bearer ${token}`, clusterid: "Kubernetes" };
  const frame = Buffer.concat([Buffer.alloc(5), message]);
  frame.writeUInt32BE(message.length, 1);
  return callHonestly(server, headers, frame, end);
}

/** Floods by a process of its own, or does nothing for as long. */
async function flood(
  { method, scene: { flooded, strangersAddress } }: Row,
  { port, monitoringPort }: Server,
  { token }: Workload,
  bounds: Bounds,
): Promise<void> {
  const { seconds, interruption } = bounds;
  if (method === "none") return pause(1000 * seconds, interruption);
  const program = fileURLToPath(new URL("flooder.ts", import.meta.url));
  const at = flooded === "monitoring" ? [`${monitoringPort}`, "plaintext"] : [`${port}`, "tls"];
  const words = [program, method, at[0], `${seconds}`, strangersAddress, at[1]] as string[];
  const child = spawn(process.execPath, words, {
    stdio: "ignore",
    env: { ...process.env, FLOOD_TOKEN: token },
  });
  const kill = (): boolean => child.kill("SIGKILL");
  interruption.addEventListener("abort", kill);
  await once(child, "exit");
  interruption.removeEventListener("abort", kill);
}

/** The memory of a server, in MiB. The last figure stands for a server that has ended. */
function sampled(server: Server) {
  let [now, peak] = [Number.NaN, 0];
  const sample = (): void => {
    if (server.hasEnded()) return;
    now = server.memory();
    peak = Math.max(peak, now);
  };
  const timer = setInterval(sample, 100);
  return {
    now: () => {
      sample();
      return now;
    },
    peak: () => peak,
    end: () => clearInterval(timer),
  };
}
