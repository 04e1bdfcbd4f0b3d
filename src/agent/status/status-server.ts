import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { SingleFlight } from "../../foundation/single-flight.ts";
import type { SocketAddress } from "../../foundation/socket-address.ts";
import { parseNoMore } from "../../program/http/http-exchange.ts";
import { Runtime } from "../../program/runtime.ts";
import type { AgentStatus } from "../agent-status.ts";
import type { ProxyControl } from "../envoy/envoy-process.ts";

interface StatusView {
  readonly status: () => AgentStatus;
  readonly metrics: () => Promise<string>;
  readonly proxy: ProxyControl | undefined;
}

interface Answers extends StatusView {
  readonly faults: () => Promise<readonly string[]>;
  /** The metrics of the agent and of the proxy. */
  readonly stats: () => Promise<Buffer>;
}

/** How long a result of `stats` is shared: it may have megabytes, and each slow caller would hold its own copy. */
const statsMilliseconds = 1_000;

/**
 * Serves probes, metrics and status over HTTP, and pilot-agent's commands to callers of this machine. No answer
 * holds a secret.
 */
export async function serveStatus({ host, port }: SocketAddress, view: StatusView) {
  const server = createServer({
    requestTimeout: 10_000,
    headersTimeout: 5_000,
    connectionsCheckingInterval: 1_000,
  });
  // Ends a connection whose caller has stopped reading its answer.
  server.timeout = 10_000;
  boundConnections(server);
  const { proxy } = view;
  const faults = shared(async () => (await proxy?.faults()) ?? []);
  const both = async (): Promise<Buffer> =>
    Buffer.from((await view.metrics()) + ((await proxy?.metrics()) ?? ""));
  const answers = { ...view, faults, stats: shared(both, statsMilliseconds) };
  server.on("request", (request, response) => {
    if (!isNext(request.socket, response)) return;
    // Discards the body, which no request needs.
    request.resume();
    answer(request, answers, response).catch(() => response.destroy());
  });
  // Node would answer a request with `Expect` itself, without the bounds.
  server.on("checkExpectation", (...arrived) => server.emit("request", ...arrived));
  server.listen(port, host);
  await once(server, "listening");
  const { port: bound } = server.address() as AddressInfo;
  return {
    url: `http://${host}:${bound}`,
    async close(): Promise<void> {
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };
}

/** Enough for probes and scrapers. The port may be open to every pod of the cluster. */
const maximumConnections = 64;

/** Beyond the bound, destroys the oldest connection of the address that has most. */
function boundConnections(server: Server): void {
  const open = new Set<Socket>();
  server.on("connection", (socket) => {
    open.add(socket);
    socket.once("close", () => open.delete(socket));
    if (open.size <= maximumConnections) return;
    const byAddress = Map.groupBy(open, ({ remoteAddress = "" }) => remoteAddress).values();
    const [[oldest] = []] = [...byAddress].toSorted((one, other) => other.length - one.length);
    if (oldest) open.delete(oldest.destroy());
  });
}

const occupied = new WeakSet<Socket>();

/** Whether a request is the only one on its connection. If not, destroys the connection: no probe sends two at once. */
function isNext(socket: Socket, response: ServerResponse): boolean {
  if (occupied.has(socket)) {
    parseNoMore(socket);
    socket.destroy();
    return false;
  }
  occupied.add(socket);
  response.once("finish", () => occupied.delete(socket));
  return true;
}

/** Shares one result among all calls that come before it has ended, and for `milliseconds` after. */
function shared<T>(ask: () => Promise<T>, milliseconds = 0): () => Promise<T> {
  const flight = new SingleFlight<T>();
  const forget = (): void => flight.forget();
  const work = () => ask().finally(() => setTimeout(forget, milliseconds).unref());
  return () => flight.join(work, () => true);
}

async function answer(
  request: IncomingMessage,
  view: Answers,
  response: ServerResponse,
): Promise<void> {
  const path = new URL(request.url ?? "/", "http://agent").pathname;
  if (path === "/drain" || path === "/quitquitquit") return command(path, request, view, response);
  const isRead = request.method === "GET" || request.method === "HEAD";
  switch (isRead ? path : "") {
    case "/healthz":
      return end(response, 200, "text/plain", "ok\n");
    case "/readyz":
    case "/healthz/ready": {
      const { isReady, reasons } = await statusWithProxy(view);
      const readiness = json({ isReady, reasons, runtime: Runtime.faults() });
      return end(response, isReady ? 200 : 503, "application/json", readiness);
    }
    case "/metrics":
      return end(response, 200, metricsType, await view.metrics());
    case "/stats/prometheus":
      return end(response, 200, metricsType, await view.stats());
    case "/status":
      return end(response, 200, "application/json", json(await statusWithProxy(view)));
    default:
      return end(response, 404, "text/plain", "not found\n");
  }
}

const metricsType = "text/plain; version=0.0.4";

/** The status of the agent, which is ready only if the proxy beside it is, too. */
async function statusWithProxy({ status, faults: askProxy }: Answers): Promise<AgentStatus> {
  const own = status();
  const faults = await askProxy();
  return {
    ...own,
    isReady: own.isReady && faults.length === 0,
    reasons: [...own.reasons, ...faults],
  };
}

const loopback = /^(?:(?:::ffff:)?127\.|::1$)/;

async function command(
  path: "/drain" | "/quitquitquit",
  { method, socket }: IncomingMessage,
  { proxy }: StatusView,
  response: ServerResponse,
): Promise<void> {
  if (!loopback.test(socket.remoteAddress ?? "")) {
    return end(response, 403, "text/plain", "only for callers of this machine\n");
  }
  if (method !== "POST") return end(response, 405, "text/plain", "must be a POST\n");
  if (path === "/quitquitquit") proxy?.quit();
  else await proxy?.drain();
  return end(response, 200, "text/plain", "ok\n");
}

const json = (value: unknown): string => `${JSON.stringify(value)}\n`;

function end(response: ServerResponse, status: number, type: string, body: string | Buffer): void {
  response.writeHead(status, { "content-type": type, "cache-control": "no-store" });
  response.end(body);
}
