import { once } from "node:events";
import { connect } from "node:net";
import { networkInterfaces } from "node:os";
import { buffer } from "node:stream/consumers";
import { expect, onTestFinished, test } from "vitest";
import type { AgentStatus } from "../../../src/agent/agent-status.ts";
import type { ProxyControl } from "../../../src/agent/envoy/envoy-process.ts";
import { serveStatus } from "../../../src/agent/status/status-server.ts";
import { Runtime } from "../../../src/program/runtime.ts";

const ready: AgentStatus = {
  isReady: true,
  reasons: [],
  proxies: [],
  identities: [],
  roots: [],
  bundle: { sequence: undefined, confirmedAt: undefined, lastError: undefined, isFollowed: true },
  revocation: { isUsed: false, lists: [], confirmedAt: undefined, lastError: undefined },
  xds: undefined,
};

/** The status server of an agent with a certificate, beside a proxy. */
async function serve(faults: ProxyControl["faults"] = async () => [], host = "127.0.0.1") {
  const done: string[] = [];
  const proxy: ProxyControl = {
    faults,
    metrics: async () => "envoy_server_live 1\n",
    drain: async () => void done.push("drain"),
    quit: () => void done.push("quit"),
  };
  const view = { status: () => ready, metrics: async () => "istio_agent_x 1\n", proxy };
  const server = await serveStatus({ host, port: 0 }, view);
  onTestFinished(() => server.close());
  return { url: server.url, done };
}

test("is ready only when the proxy is, and says why it is not", async () => {
  const { url } = await serve(async () => ["Envoy has no listeners yet"]);
  for (const path of ["/readyz", "/healthz/ready"]) {
    const response = await fetch(`${url}${path}`);
    expect(response.status).toBe(503);
    expect(await response.json()).toEqual({
      isReady: false,
      reasons: ["Envoy has no listeners yet"],
      runtime: Runtime.faults(),
    });
  }
  expect(await (await fetch(`${url}/status`)).json()).toMatchObject({ isReady: false });
  expect((await fetch(`${(await serve()).url}/healthz/ready`)).status).toBe(200);
});

test("has Envoy's metrics beside its own where pilot-agent has them", async () => {
  const { url } = await serve();
  const text = async (path: string) => (await fetch(`${url}${path}`)).text();
  expect(await text("/stats/prometheus")).toBe("istio_agent_x 1\nenvoy_server_live 1\n");
  expect(await text("/metrics")).toBe("istio_agent_x 1\n");
});

test("drains and quits when a process of this machine says so", async () => {
  const { url, done } = await serve();
  for (const path of ["/drain", "/quitquitquit"]) {
    expect((await fetch(`${url}${path}`, { method: "POST" })).status).toBe(200);
  }
  expect(done).toEqual(["drain", "quit"]);
});

test("neither drains nor quits for a GET, and answers 404 for other paths and methods", async () => {
  const { url, done } = await serve();
  const statusOf = async (path: string, method = "GET") =>
    (await fetch(`${url}${path}`, { method })).status;
  for (const path of ["/drain", "/quitquitquit"]) expect(await statusOf(path)).toBe(405);
  expect([await statusOf("/"), await statusOf("/status", "POST")]).toEqual([404, 404]);
  expect(done).toEqual([]);
});

const outside = Object.values(networkInterfaces())
  .flat()
  .find((each) => each && !each.internal && each.family === "IPv4")?.address;

test.skipIf(outside === undefined)("does neither for callers of other machines", async () => {
  const { url, done } = await serve(undefined, "0.0.0.0");
  const { port } = new URL(url);
  const response = await fetch(`http://${outside}:${port}/quitquitquit`, { method: "POST" });
  expect(response.status).toBe(403);
  expect(done).toEqual([]);
});

test("answers no request of a connection with a second one before the first answer", async () => {
  const asked = Promise.withResolvers<readonly string[]>();
  const { url } = await serve(() => asked.promise);
  const socket = connect(Number(new URL(url).port), "127.0.0.1").on("error", () => {});
  const read = buffer(socket).catch(() => Buffer.of());
  socket.write("GET /readyz HTTP/1.1\r\nhost: a\r\n\r\n".repeat(2));
  await once(socket, "connect");
  await fetch(`${url}/healthz`);
  asked.resolve([]);
  expect(await read).toHaveLength(0);
});

test("keeps 64 connections, and ends the oldest of the address that has most", async () => {
  const { url } = await serve();
  const open = Array.from({ length: 64 }, () => connect(Number(new URL(url).port), "127.0.0.1"));
  await Promise.all(open.map((socket) => once(socket.resume(), "connect")));
  const [first] = open;
  const closed = first && once(first, "close");
  expect((await fetch(`${url}/healthz`)).status).toBe(200);
  await closed;
  // After five seconds the server would close all, since they have sent nothing. Another connection ends another one.
  expect((await fetch(`${url}/healthz`)).status).toBe(200);
  expect([62, 63]).toContain(open.filter(({ destroyed }) => !destroyed).length);
  for (const socket of open) socket.destroy();
});

test("asks Envoy once for all that ask at the same time", async () => {
  const asked = Promise.withResolvers<readonly string[]>();
  let count = 0;
  const { url } = await serve(() => {
    count++;
    return asked.promise;
  });
  const both = [fetch(`${url}/readyz`), fetch(`${url}/status`)];
  while (count === 0) await new Promise(setImmediate);
  await fetch(`${url}/healthz`);
  asked.resolve([]);
  for (const each of both) expect((await each).status).toBe(200);
  expect(count).toBe(1);
});
