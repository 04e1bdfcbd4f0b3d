import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";

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
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return { origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, requests };
}
