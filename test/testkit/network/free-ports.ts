import { once } from "node:events";
import { createServer } from "node:net";

/**
 * Below the ports that systems give to connections and to listeners of port 0 (Linux 32768, others
 * 49152), so that nobody gets a port between this look and the start of the program that it is for.
 */
const [lowest, count] = [20_000, 12_000];

/** Two processes that look at the same time begin at different places. */
let next = Math.floor(Math.random() * count);

/** Ports of this machine that are free now. No two calls in a process get the same one. */
export async function freePorts(wanted: number): Promise<readonly number[]> {
  const ports: number[] = [];
  for (let looks = 0; ports.length < wanted; looks++) {
    if (looks === count) throw new Error(`fewer than ${wanted} ports are free`);
    const port = lowest + (next++ % count);
    if (await isFree(port)) ports.push(port);
  }
  return ports;
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer().listen(port, "127.0.0.1");
  try {
    await once(server, "listening");
  } catch {
    return false;
  }
  server.close();
  await once(server, "close");
  return true;
}
