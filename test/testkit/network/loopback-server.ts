import { createServer, type RequestListener } from "node:http";
import { onTestFinished } from "vitest";
import { listenOnLoopback } from "./loopback.ts";

/** A real HTTP server of this machine, for the length of one test. */
export interface LoopbackServer {
  readonly origin: string;
  /** The path of every request, in order. */
  readonly requests: readonly string[];
}

/** @param listener May hang: connections are cut when the test is over. */
export async function startLoopbackServer(listener: RequestListener): Promise<LoopbackServer> {
  const requests: string[] = [];
  const server = createServer((request, response) => {
    requests.push(request.url ?? "");
    listener(request, response);
  });
  const { host, close } = await listenOnLoopback(server);
  // What has left HTTP is not cut, and not waited for.
  onTestFinished(() => void close());
  return { origin: `http://${host}`, requests };
}
