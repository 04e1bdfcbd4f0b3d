import { expect, test } from "vitest";
import type { ReadinessProbe } from "../../../src/agent/configuration/proxy-config.ts";
import type { Prober } from "../../../src/agent/xds/probers.ts";
import { watchHealth } from "../../../src/agent/xds/workload-health.ts";
import type { Health } from "../../../src/agent/xds/xds-stream.ts";
import type { Pause } from "../../../src/foundation/work/pause.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { createVirtualTime } from "../../testkit/time/virtual-time.ts";

const usual = {
  initialDelaySeconds: 0,
  timeoutSeconds: 1,
  periodSeconds: 2,
  successThreshold: 1,
  failureThreshold: 1,
};

/** The faults that are reported of these outcomes, and the pauses. "ok" is healthy, "late" gets no answer. */
async function reportsOf(
  outcomes: readonly string[],
  changes: Partial<ReadinessProbe> = {},
): Promise<{ reports: (string | undefined)[]; pauses: number[]; events: string[] }> {
  const probe = { ...usual, ...changes };
  const time = createVirtualTime(new Date(0));
  const ending = new AbortController();
  const rest = [...outcomes];
  const reports: Health[] = [];
  const pauses: number[] = [];
  const log = createEventRecorder();
  const ask: Prober = async (signal) => {
    const outcome = rest.shift();
    if (outcome === undefined) ending.abort();
    if (outcome === "late") {
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
    }
    return outcome === "ok" ? undefined : outcome;
  };
  const pause: Pause = (milliseconds, signal) => {
    if (milliseconds !== 1000 * probe.timeoutSeconds) pauses.push(milliseconds);
    return time.pause(milliseconds, signal);
  };
  const report = (health: Health): void => void reports.push(health);
  await time.passWhile(watchHealth(probe, ask, { pause, log, report }, ending.signal));
  return {
    reports: reports.map(({ fault }) => fault),
    pauses,
    events: log.operations.map(({ event }) => event),
  };
}

test("reports changes only", async () => {
  const { reports, events } = await reportsOf(["ok", "ok", "broken", "broken again", "ok"]);
  expect(reports).toEqual([undefined, "broken", undefined]);
  expect(events).toEqual(["workload-healthy", "workload-unhealthy", "workload-healthy"]);
});

test("says nothing of a workload that was never healthy", async () => {
  expect((await reportsOf(["broken", "broken", "broken"])).reports).toEqual([]);
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

test("counts a probe without an answer in time as failed", async () => {
  const { reports } = await reportsOf(["ok", "late", "ok"]);
  expect(reports).toEqual([undefined, "no answer within 1 s", undefined]);
});

test("cuts long faults", async () => {
  const { reports } = await reportsOf(["ok", "x".repeat(1000)]);
  expect(reports[1]).toHaveLength(500);
});
