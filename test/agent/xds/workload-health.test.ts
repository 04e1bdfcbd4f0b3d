import type { RequestListener } from "node:http";
import { Server, ServerCredentials, type ServerUnaryCall, type sendUnaryData } from "@grpc/grpc-js";
import { expect, onTestFinished, test } from "vitest";
import type { ProbeMethod, ReadinessProbe } from "../../../src/agent/configuration/proxy-config.ts";
import type { ProbeAddresses } from "../../../src/agent/configuration/xds-settings.ts";
import {
  behind,
  createProber,
  type Prober,
  watchHealth,
} from "../../../src/agent/xds/workload-health.ts";
import type { WorkloadHealth } from "../../../src/agent/xds/xds-stream.ts";
import type { Pause } from "../../../src/foundation/pause.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { freePorts } from "../../testkit/network/free-ports.ts";
import { startLoopbackServer } from "../../testkit/network/loopback-server.ts";
import { startTlsServer } from "../../testkit/network/loopback-tls.ts";
import { createVirtualTime } from "../../testkit/time/virtual-time.ts";

const usual = {
  initialDelaySeconds: 0,
  timeoutSeconds: 1,
  periodSeconds: 2,
  successThreshold: 1,
  failureThreshold: 1,
};

/** The faults that are reported of these outcomes, and the pauses. "ok" is healthy, "late" gets no answer. */
async function reportsOf(outcomes: readonly string[], changes: Partial<ReadinessProbe> = {}) {
  const probe = { ...usual, ...changes };
  const time = createVirtualTime(new Date(0));
  const ending = new AbortController();
  const rest = [...outcomes];
  const reports: WorkloadHealth[] = [];
  const pauses: number[] = [];
  const log = createEventRecorder();
  let [open, atOnce] = [0, 0];
  const ask: Prober = async (signal) => {
    const outcome = rest.shift();
    atOnce = Math.max(atOnce, ++open);
    if (outcome === undefined) ending.abort();
    if (outcome === "late") {
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
    }
    open--;
    return outcome === "ok" ? undefined : outcome;
  };
  const pause: Pause = (milliseconds, signal) => {
    if (milliseconds !== 1000 * probe.timeoutSeconds) pauses.push(milliseconds);
    return time.pause(milliseconds, signal);
  };
  const report = (health: WorkloadHealth): void => void reports.push(health);
  await time.passWhile(watchHealth(probe, ask, { pause, log, report }, ending.signal));
  return {
    reports: reports.map(({ fault }) => fault),
    pauses,
    events: log.operations.map(({ event }) => event),
    atOnce,
  };
}

test("reports changes only", async () => {
  const { reports, events } = await reportsOf(["ok", "ok", "broken", "broken again", "ok"]);
  expect(reports).toEqual([undefined, "broken", undefined]);
  expect(events).toEqual(["workload-healthy", "workload-unhealthy", "workload-healthy"]);
});

test("says nothing of a workload that was never healthy, and cuts long faults", async () => {
  expect((await reportsOf(["broken", "broken", "broken"])).reports).toEqual([]);
  const { reports } = await reportsOf(["ok", "x".repeat(1000)]);
  expect(reports[1]).toHaveLength(500);
});

test("waits for as many probes in a row as the thresholds say", async () => {
  const changes = { successThreshold: 2, failureThreshold: 3 };
  const outcomes = ["ok", "no", "ok", "ok", "no", "no", "ok", "no", "no", "third", "ok"];
  expect((await reportsOf(outcomes, changes)).reports).toEqual([undefined, "third"]);
});

test("waits for the delay once, and for the period between probes", async () => {
  const { pauses } = await reportsOf(["ok", "ok", "ok"], { initialDelaySeconds: 5 });
  expect(pauses).toEqual([5_000, 2_000, 2_000, 2_000]);
});

test("counts a probe without an answer in time as failed, and stops it", async () => {
  const { reports, atOnce } = await reportsOf(["ok", "late", "ok"]);
  expect(atOnce).toBe(1);
  expect(reports).toEqual([undefined, "no answer within 1 s", undefined]);
});

const addresses: ProbeAddresses = { host: "127.0.0.1", localAddress: undefined };
const never = new AbortController().signal;

async function listen(listener: RequestListener): Promise<number> {
  const { origin } = await startLoopbackServer(listener);
  return Number(new URL(origin).port);
}

const ask = (method: ProbeMethod, signal = never, from = addresses) =>
  createProber(method, from)(signal);

const http = (port: number): Extract<ProbeMethod, { kind: "http" }> => ({
  kind: "http",
  scheme: "http",
  host: undefined,
  port,
  path: "/live?x=1",
  httpHeaders: [],
});

test.each([
  [200, undefined],
  [204, undefined],
  [302, undefined],
  [399, undefined],
  [400, "HTTP status 400"],
  [503, "HTTP status 503"],
])("HTTP status %d: %s", async (status, fault) => {
  const port = await listen((_request, response) => response.writeHead(status).end("body"));
  expect(await ask(http(port))).toBe(fault);
});

test("asks by HTTP with Istio's name, or with the headers that were given", async () => {
  const seen: unknown[] = [];
  const port = await listen(({ url, headers, socket }, response) => {
    seen.push([url, headers["user-agent"], headers.host, socket.remoteAddress]);
    response.end();
  });
  const from = { host: "127.0.0.1", localAddress: "127.0.0.6" };
  await ask(http(port), never, from);
  const httpHeaders = [
    { name: "User-Agent", value: "own" },
    { name: "Host", value: "app.test" },
  ];
  await ask({ ...http(port), httpHeaders });
  expect(seen).toEqual([
    ["/live?x=1", "istio-probe/1.0", `127.0.0.1:${port}`, "127.0.0.6"],
    ["/live?x=1", "own", "app.test", "127.0.0.1"],
  ]);
});

test("asks by HTTPS without a look at the certificate", async () => {
  const { origin } = await startTlsServer((_request, response) => response.end());
  const port = Number(new URL(origin).port);
  expect(await ask({ ...http(port), scheme: "https" })).toBeUndefined();
});

test("reads no more than the head of an endless answer, and ends with its signal", async () => {
  const endless = await listen((_, response) => void response.write("x".repeat(100_000)));
  expect(await ask(http(endless))).toBeUndefined();
  const ending = new AbortController();
  const port = await listen(() => ending.abort());
  expect(await ask(http(port), ending.signal)).toBe("ABORT_ERR");
});

test("finds nobody at a port on which nothing listens", async () => {
  const [port = 0] = await freePorts(1);
  const methods: ProbeMethod[] = [
    http(port),
    { kind: "tcp", host: undefined, port },
    { kind: "grpc", port, service: "" },
  ];
  for (const method of methods) expect(await ask(method)).toContain("ECONNREFUSED");
});

test("takes an open port for healthy, and asks at the host that a probe names", async () => {
  const port = await listen((_request, response) => response.end());
  const from = { host: "elsewhere.invalid", localAddress: undefined };
  expect(await ask({ kind: "tcp", host: "127.0.0.1", port }, never, from)).toBeUndefined();
  expect(await ask({ ...http(port), host: "127.0.0.1" }, never, from)).toBeUndefined();
});

test.each<[string[], string | undefined]>([
  [[process.execPath, "-e", "0"], undefined],
  [[process.execPath, "-e", "process.exit(3)"], "the command failed: 3"],
  [["/nowhere/command"], "the command failed: ENOENT"],
])("runs %o: %s", async (command, fault) => {
  expect(await ask({ kind: "exec", command })).toBe(fault);
});

test("kills a command with its signal", async () => {
  const ending = new AbortController();
  const command = [process.execPath, "-e", "setInterval(() => {}, 1000)"];
  const asked = ask({ kind: "exec", command }, ending.signal);
  ending.abort();
  expect(await asked).toMatch(/^the command failed/);
});

/** Answers gRPC's health check with this status: one octet behind a tag. */
async function startHealthService(status: number, asked: Buffer[] = []): Promise<number> {
  const server = new Server();
  const asIs = (octets: Buffer): Buffer => octets;
  const definition = {
    path: "/grpc.health.v1.Health/Check",
    requestStream: false,
    responseStream: false,
    requestSerialize: asIs,
    requestDeserialize: asIs,
    responseSerialize: asIs,
    responseDeserialize: asIs,
  };
  const check = (call: ServerUnaryCall<Buffer, Buffer>, answer: sendUnaryData<Buffer>): void => {
    asked.push(call.request);
    answer(null, Buffer.from([8, status]));
  };
  server.addService({ check: definition }, { check });
  onTestFinished(() => server.forceShutdown());
  return new Promise((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, port) =>
      error ? reject(error) : resolve(port),
    );
  });
}

test.each([
  [1, undefined],
  [2, "the status of the service is 2"],
  [0, "the status of the service is 0"],
])("gRPC health status %d: %s", async (status, fault) => {
  const asked: Buffer[] = [];
  const port = await startHealthService(status, asked);
  expect(await ask({ kind: "grpc", port, service: "app" })).toBe(fault);
  expect(asked).toEqual([Buffer.from("\n\x03app")]);
});

test("asks Envoy before the workload, if there is one", async () => {
  const broken = async () => "broken";
  const envoy = (faults: string[]) => behind({ faults: async () => faults }, broken)(never);
  expect(await envoy(["Envoy has no clusters yet"])).toBe("Envoy has no clusters yet");
  expect(await envoy([])).toBe("broken");
  expect(await behind(undefined, broken)(never)).toBe("broken");
});
