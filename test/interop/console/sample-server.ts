import { createServer } from "node:http";
import { createFetchHandler } from "@connectrpc/connect/protocol";
import { Console, ConsoleScript } from "../../../src/console/console.ts";
import { portGuard } from "../../../src/console/port-guard.ts";
import { script } from "../../../src/gen/console/script.ts";
import { scriptIntegrity, scriptPath } from "../../../src/gen/console/script-name.ts";
import type { Status } from "../../../src/status/status.ts";
import { toRequest } from "../../testkit/agent/http-ca.ts";
import { sampleNow } from "../../testkit/console/sample-status.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { listenOnLoopback } from "../../testkit/network/loopback.ts";

export async function serveStatus(status: Status) {
  const console = Console.create({
    status,
    guard: portGuard,
    clock: () => sampleNow,
    log: createEventRecorder(),
    script: {
      path: scriptPath,
      integrity: scriptIntegrity,
      answer: () => new Response(script, { headers: ConsoleScript.headers }),
    },
    hasTrailers: false,
  });
  const rpcs = new Map(
    console.handlers.map((handler) => [handler.requestPath, createFetchHandler(handler)]),
  );
  async function answer(request: Request): Promise<Response> {
    const rpc = rpcs.get(new URL(request.url).pathname);
    if (rpc) return rpc(request);
    return (await console.answer(request)) ?? new Response("", { status: 404 });
  }
  const server = createServer(async (incoming, outgoing) => {
    const response = await answer(await toRequest("http://127.0.0.1", incoming));
    outgoing.writeHead(response.status, Object.fromEntries(response.headers));
    outgoing.end(Buffer.from(await response.arrayBuffer()));
  });
  const { host, close } = await listenOnLoopback(server);
  return { url: `http://${host}/`, [Symbol.dispose]: () => void close() };
}
