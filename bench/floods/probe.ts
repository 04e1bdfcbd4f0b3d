import { request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { deadline, type Latencies, type Latency } from "./latencies.ts";
import type { Server } from "./servers.ts";

/** Every so many milliseconds a probe begins. */
const interval = 500;

/** Asks a program whether it is ready, as a kubelet does, until the signal aborts. */
export async function probe(server: Server, signal: AbortSignal): Promise<Latencies> {
  const probes: Promise<Latency>[] = [];
  while (!signal.aborted) {
    probes.push(timed(server));
    await sleep(interval);
  }
  return Promise.all(probes);
}

async function timed(server: Server): Promise<Latency> {
  const [begun, cpu, wait] = [
    performance.now(),
    server.cpuMilliseconds(),
    server.waitMilliseconds(),
  ];
  const isReady = await ask(server.monitoringPort);
  return {
    milliseconds: isReady ? performance.now() - begun : Number.POSITIVE_INFINITY,
    serverCpuMilliseconds: server.cpuMilliseconds() - cpu,
    serverWaitMilliseconds: server.waitMilliseconds() - wait,
  };
}

/** From an address that no stranger has. */
function ask(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const options = { host: "127.0.0.1", port, path: "/readyz", localAddress: "127.0.0.3" };
    const asked = request({ ...options, agent: false, timeout: 5 * deadline }, (answer) => {
      answer.resume();
      resolve(answer.statusCode === 200);
    });
    asked.on("timeout", () => asked.destroy());
    asked.on("error", () => resolve(false));
    asked.end();
  });
}
