import { onTestFinished } from "vitest";
import { listenInPlaintext } from "../../../src/node/http/listener.ts";
import type { Routes } from "../../../src/node/http/routes.ts";
import type { Guard } from "../../../src/node/limits/guard.ts";
import { createEventRecorder } from "../log/event-recorder.ts";

/**
 * Opens a port without TLS until the test ends.
 *
 * @param guard Absent on a port of monitoring.
 */
export async function openPort({ rpcs = new Map(), fetch }: Partial<Routes>, guard?: Guard) {
  const log = createEventRecorder();
  const answer = fetch ?? (async () => new Response("ok"));
  const routes = { rpcs, fetch: answer, log };
  const listener = await listenInPlaintext(routes, { host: "127.0.0.1", port: 0 }, guard);
  onTestFinished(async () => {
    guard?.end();
    await listener.close(0);
  });
  return { port: listener.address.port, log };
}
