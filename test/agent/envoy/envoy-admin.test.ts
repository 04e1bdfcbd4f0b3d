import { expect, test } from "vitest";
import { EnvoyAdmin } from "../../../src/agent/envoy/envoy-admin.ts";
import { drainConnections } from "../../../src/agent/envoy/envoy-process.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { startLoopbackServer } from "../../testkit/network/loopback-server.ts";
import { hangMilliseconds } from "../../testkit/time/hang-limit.ts";

/** An admin interface with these counters and gauges, which it filters as Envoy does. */
async function startAdmin(...answers: (Readonly<Record<string, number>> | undefined)[]) {
  const requests: string[] = [];
  const { origin } = await startLoopbackServer((request, response) => {
    const url = new URL(request.url ?? "/", "http://envoy");
    requests.push(`${request.method} ${url.pathname}${url.search}`);
    if (url.pathname !== "/stats") return response.end();
    const filter = new RegExp(url.searchParams.get("filter") ?? "");
    const stats = answers.length > 1 ? answers.shift() : answers[0];
    if (!stats) return response.writeHead(503).end();
    const lines = Object.entries(stats).filter(([name]) => filter.test(name));
    return response.end(lines.map(([name, value]) => `${name}: ${value}\n`).join(""));
  });
  return { admin: new EnvoyAdmin(origin, hangMilliseconds), requests };
}

const live = { "server.state": 0, "listener_manager.workers_started": 1 };
const clusters = "cluster_manager.cds";
const listeners = "listener_manager.lds";

test.each<[string, Readonly<Record<string, number>>, readonly string[]]>([
  ["without discovery", live, []],
  [
    "with listeners and clusters, one push rejected since",
    {
      ...live,
      [`${clusters}.update_success`]: 2,
      [`${listeners}.update_success`]: 1,
      [`${listeners}.update_rejected`]: 1,
    },
    [],
  ],
  [
    "that waits for both",
    { ...live, [`${clusters}.update_success`]: 0, [`${listeners}.update_success`]: 0 },
    ["Envoy has no clusters yet", "Envoy has no listeners yet"],
  ],
  [
    "that rejected its first listeners",
    {
      ...live,
      [`${clusters}.update_success`]: 1,
      [`${listeners}.update_success`]: 0,
      [`${listeners}.update_rejected`]: 1,
    },
    ["Envoy rejected its listeners"],
  ],
  ["that starts", { ...live, "server.state": 3 }, ["Envoy is not live but INITIALIZING"]],
  [
    "whose workers have not started",
    { ...live, "listener_manager.workers_started": 0 },
    ["Envoy's workers have not started"],
  ],
])("of an Envoy %s", async (_what, stats, faults) => {
  const { admin } = await startAdmin(stats);
  expect(await admin.faults()).toEqual(faults);
});

test("throws where it does not answer, or with another status than 200", async () => {
  await expect(new EnvoyAdmin("http://127.0.0.1:1").faults()).rejects.toThrow();
  const { admin } = await startAdmin(undefined);
  await expect(admin.faults()).rejects.toThrow("status 503");
});

const inbound = "listener.0.0.0.0_15006.downstream_cx_active";

test("counts the connections of clients, and no others", async () => {
  const { admin } = await startAdmin({
    [inbound]: 3,
    "listener.[__]_15001.downstream_cx_active": 2,
    "listener.0.0.0.0_15006.worker_0.downstream_cx_active": 3,
    "listener.admin.downstream_cx_active": 1,
    "listener.admin.main_thread.downstream_cx_active": 1,
    "listener.0.0.0.0_15021.downstream_cx_active": 1,
    "listener.0.0.0.0_15090.downstream_cx_active": 1,
    "listener.envoy_internal_main.downstream_cx_active": 7,
    "http.inbound.downstream_cx_active": 3,
  });
  expect(await admin.activeConnections()).toBe(5);
});

/** Drains until no connection is left, with a clock that does not wait. */
async function drainUntilIdle(admin: EnvoyAdmin, maximumPauses = 20): Promise<readonly number[]> {
  const ending = new AbortController();
  const pauses: number[] = [];
  const pause = async (milliseconds: number): Promise<void> => {
    pauses.push(milliseconds);
    if (pauses.length === maximumPauses) ending.abort();
  };
  const policy = { kind: "until-idle" as const, minimumMilliseconds: 7_000 };
  await drainConnections({ admin, policy, log: createEventRecorder(), pause }, ending.signal);
  return pauses;
}

test("drains for the shortest time at least, and then until no connection is left", async () => {
  const { admin, requests } = await startAdmin(
    { [inbound]: 2 },
    { [inbound]: 1 },
    { [inbound]: 0 },
  );
  expect(await drainUntilIdle(admin)).toEqual([7_000, 1_000, 1_000]);
  expect(requests[0]).toBe("POST /drain_listeners?graceful");
});

test("ends a drain where Envoy counts no connections, or cannot be asked five times in a row", async () => {
  expect(await drainUntilIdle((await startAdmin({})).admin)).toEqual([7_000]);
  const { admin } = await startAdmin(undefined, undefined, { [inbound]: 1 }, undefined);
  const five = Array.from({ length: 5 }, () => 1_000);
  expect(await drainUntilIdle(admin)).toEqual([7_000, 1_000, 1_000, 1_000, ...five]);
});

test("drains as long as there are connections, until it is told to end", async () => {
  const { admin } = await startAdmin({ [inbound]: 1 });
  expect(await drainUntilIdle(admin, 5)).toHaveLength(5);
});
