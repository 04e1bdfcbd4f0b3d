import { createServer, type RequestListener } from "node:http";
import { onTestFinished } from "vitest";
import { listenOnLoopback } from "./loopback.ts";

/** A real HTTP server on the loopback address. It ends with the test. */
export interface LoopbackServer {
  readonly origin: string;
  /** The path of every request, in order. */
  readonly requests: readonly string[];
}

/** @param listener May hang, because the end of the test cuts all connections. */
export async function startLoopbackServer(listener: RequestListener): Promise<LoopbackServer> {
  const requests: string[] = [];
  const server = createServer((request, response) => {
    requests.push(request.url ?? "");
    listener(request, response);
  });
  const { host, close } = await listenOnLoopback(server);
  // A connection that switched protocols is neither cut nor awaited.
  onTestFinished(() => void close());
  return { origin: `http://${host}`, requests };
}
