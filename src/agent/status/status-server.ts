import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { SocketAddress } from "../../foundation/text/socket-address.ts";
import type { AgentStatus } from "./agent-status.ts";

/** The content of the status server. */
export interface StatusView {
  readonly status: () => AgentStatus;
  readonly metrics: () => Promise<string>;
}

/** A running status server. */
export interface StatusServer {
  readonly url: string;
  close(): Promise<void>;
}

/** Serves probes, metrics and status over HTTP. No answer holds a secret. */
export async function serveStatus(
  { host, port }: SocketAddress,
  view: StatusView,
): Promise<StatusServer> {
  const server = createServer({ requestTimeout: 10_000, headersTimeout: 5_000 });
  server.on("request", (request, response) => {
    const path = new URL(request.url ?? "/", "http://agent").pathname;
    const isRead = request.method === "GET" || request.method === "HEAD";
    answer(isRead ? path : "", view, response).catch(() => response.destroy());
  });
  server.listen(port, host);
  await once(server, "listening");
  const { port: bound } = server.address() as AddressInfo;
  return {
    url: `http://${host}:${bound}`,
    async close() {
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };
}

async function answer(path: string, view: StatusView, response: ServerResponse): Promise<void> {
  switch (path) {
    case "/healthz":
      return end(response, 200, "text/plain", "ok\n");
    case "/readyz":
    case "/healthz/ready": {
      const { isReady, reasons } = view.status();
      return end(response, isReady ? 200 : 503, "application/json", json({ isReady, reasons }));
    }
    case "/metrics":
    case "/stats/prometheus":
      return end(response, 200, "text/plain; version=0.0.4", await view.metrics());
    case "/status":
      return end(response, 200, "application/json", json(view.status()));
    default:
      return end(response, 404, "text/plain", "not found\n");
  }
}

const json = (value: unknown): string => `${JSON.stringify(value)}\n`;

function end(response: ServerResponse, status: number, type: string, body: string): void {
  response.writeHead(status, { "content-type": type, "cache-control": "no-store" });
  response.end(body);
}
