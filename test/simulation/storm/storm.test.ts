import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type ClientName, type ClientRules, clients } from "./clients.ts";
import { peakOf } from "./meter.ts";
import type { Scenario } from "./scenario.ts";
import { Serve, type Server, worker } from "./server.ts";
import { type StormSetting, simulateStorm } from "./storm.ts";

const hour = 3600;
const day = 24 * hour;

const calm: Scenario = {
  name: "calm",
  startSeconds: undefined,
  outage: undefined,
  upheaval: undefined,
  beginsAt: 0,
  settlesAt: 0,
  endsAt: 2 * day,
};

const coldStart: Scenario = { ...calm, startSeconds: 1, settlesAt: 1 };

const outageOf = (from: number, until: number): Scenario => ({
  ...calm,
  outage: [from, until],
  beginsAt: until,
  settlesAt: until,
  endsAt: until + 2 * day,
});

const settingOf = (
  client: ClientName | ClientRules,
  scenario: Scenario,
  workloads: number,
): StormSetting => ({
  workloads,
  scenario,
  mix: [[typeof client === "string" ? clients[client] : client, 1]],
  lifetimeSeconds: day,
  latencySeconds: 0.05,
  seed: 7,
});

const serve = (certificateSeconds: number): Serve =>
  new Serve({
    processes: 1,
    certificateSeconds,
    handshakeSeconds: 0,
    refusalSeconds: certificateSeconds / 10,
    connectionPlaces: 5,
    streamPlaces: 5,
    backlog: 5,
  });

const names = Object.keys(clients) as ClientName[];
const anyClient = fc.constantFrom(...names);
const anyOutage = fc.tuple(
  fc.integer({ min: 0, max: 7200 }),
  fc.integer({ min: 0, max: 10 * hour }),
);
const anyScenario = fc.oneof(
  fc.constantFrom(calm, coldStart),
  anyOutage.map(([from, length]) => outageOf(from, from + length)),
  fc.constant<Scenario>({
    ...calm,
    upheaval: { at: hour, share: 0.5, seconds: 30, followSeconds: 1 },
    beginsAt: hour,
    settlesAt: hour + 30,
  }),
);
const anyServer = fc.constantFrom<() => Server>(
  () => worker,
  () => serve(0.002),
  () => serve(0.2),
);

test("every call has one outcome, and every need ends with one certificate", () => {
  fc.assert(
    fc.property(anyClient, anyScenario, anyServer, fc.nat(), (client, scenario, create, seed) => {
      const outcome = simulateStorm({ ...settingOf(client, scenario, 60), seed }, create());
      const { served, refused, unanswered, inVain, underWay, calls, needs } = outcome;
      expect(served + refused + unanswered + inVain + underWay).toBe(calls);
      expect(needs - served).toBeGreaterThanOrEqual(underWay);
      expect(needs - served).toBeLessThanOrEqual(60);
      const sum = (rates: Float64Array) => rates.reduce((total, rate) => total + rate, 0);
      expect(sum(outcome.callsPerSecond)).toBeCloseTo(calls, 3);
      expect(sum(outcome.servedPerSecond)).toBe(served);
    }),
    { numRuns: 8 },
  );
});

test("the same seed gives the same storm, and another seed another one", () => {
  const setting = settingOf("pilot-agent", outageOf(hour, 2 * hour), 300);
  const run = (seed: number) => simulateStorm({ ...setting, seed }, serve(0.2));
  expect(run(1)).toEqual(run(1));
  expect(run(1).calls).not.toBe(run(2).calls);
});

test.each(names)(
  "a calm mesh of %s loses nothing, and renews as often as its rule says",
  (client) => {
    const workloads = 400;
    const outcome = simulateStorm(settingOf(client, calm, workloads), serve(0.001));
    expect(outcome).toMatchObject({ refused: 0, unanswered: 0, inVain: 0, expired: 0 });
    expect(outcome.calls).toBe(outcome.served);
    const wait = { Kmesh: 23, "rampart agent": 0.45 * 24 }[client as string] ?? 12;
    const expected = (workloads * 48) / wait;
    expect(outcome.served).toBeGreaterThan(0.97 * expected);
    expect(outcome.served).toBeLessThan(1.03 * expected);
  },
);

describe("by hand", () => {
  /** Renews each hour, and tries again after ten seconds. */
  const plain: ClientRules = {
    renewal: () => hour,
    retryWait: () => 10,
    cycle: { after: 1, attempts: 1, seconds: 10 },
    opensConnections: false,
    connectTimeoutSeconds: 20,
    followsBundle: false,
  };

  test.each<[string, number, Server, number, object]>([
    [
      "one workload renews after each hour and the latency of an answer",
      1,
      worker,
      3 * hour + 2,
      { calls: 4, served: 4, needs: 4, underWay: 0 },
    ],
    [
      "three workloads at a server of ten seconds wait for each other",
      3,
      serve(10),
      hour,
      { calls: 3, served: 3, refused: 0, lastServedSeconds: expect.closeTo(30.5, 0) },
    ],
    [
      "seven workloads at a server with six places: one comes again after ten seconds",
      7,
      serve(5),
      100,
      { calls: 8, served: 7, refused: 1, expired: 0 },
    ],
    [
      "a storm that a server cannot serve in time has no end",
      5,
      serve(10),
      20,
      { served: 1, lastServedSeconds: undefined },
    ],
  ])("%s", (_, workloads, server, endsAt, expected) => {
    const setting = settingOf(plain, { ...coldStart, endsAt }, workloads);
    expect(simulateStorm(setting, server)).toMatchObject(expected);
  });

  test("a Kmesh whose last hour falls into an outage calls each second, and its leaf expires", () => {
    const setting = { ...settingOf("Kmesh", outageOf(0, 2 * day), 1), latencySeconds: 0 };
    const outcome = simulateStorm(setting, worker);
    expect(outcome.expired).toBe(1);
    // It first asks within 23 hours, so at least 25 hours remain.
    expect(outcome.inVain).toBeGreaterThan(25 * hour);
    expect(outcome.inVain).toBeLessThan(48 * hour);
    expect(peakOf(outcome.callsPerSecond)).toBeLessThanOrEqual(2);
    expect(outcome.lastServedSeconds).toBeLessThanOrEqual(1);
  });

  test("who follows the bundle renews at once after a taint, others when they are restarted", () => {
    const taint: Scenario = {
      ...calm,
      upheaval: { at: hour, share: 1, seconds: 600, followSeconds: 2 },
      beginsAt: hour,
      settlesAt: hour + 600,
    };
    const lastOf = (client: ClientName) =>
      simulateStorm(settingOf(client, taint, 500), worker)
        .callsPerSecond.subarray(hour, hour + 600)
        .findLastIndex((calls) => calls > 5);
    expect(lastOf("rampart agent")).toBeLessThanOrEqual(2);
    const istio = simulateStorm(settingOf("pilot-agent", taint, 500), worker);
    expect(istio.lastServedSeconds).toBeGreaterThan(500);
  });
});

test.each(names)(
  "cycles that %s repeats in a long outage are counted as if they were played",
  (client) => {
    const setting = settingOf(client, outageOf(hour, 8 * hour), 200);
    const { cycle } = clients[client];
    const played = { ...clients[client], cycle: { ...cycle, after: Number.POSITIVE_INFINITY } };
    const skipped = simulateStorm(setting, worker);
    const exact = simulateStorm({ ...setting, mix: [[played, 1]] }, worker);
    expect(skipped.inVain / exact.inVain).toBeGreaterThan(0.97);
    expect(skipped.inVain / exact.inVain).toBeLessThan(1.03);
    expect(skipped.expired).toBeLessThanOrEqual(exact.expired + 5);
  },
);
