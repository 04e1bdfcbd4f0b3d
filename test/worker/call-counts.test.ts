import { env } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import { bearer } from "../contract/rpc-calls.ts";
import { issuers } from "../contract/service-under-test.ts";
import { parseLogLine } from "../testkit/log/log-lines.ts";
import { recordConsoleLines } from "./runtime/console-lines.ts";
import { stageWorker } from "./runtime/staged-worker.ts";

const lines = recordConsoleLines();

/** A dataset that keeps its points, or refuses them. */
function dataset(fault?: Error) {
  const points: AnalyticsEngineDataPoint[] = [];
  const writeDataPoint = (point: AnalyticsEngineDataPoint = {}): void => {
    if (fault) throw fault;
    points.push(point);
  };
  return { points, writeDataPoint };
}

async function start(bindings: Readonly<Record<string, unknown>>) {
  // A Worker without a quota logs that as an event.
  const worker = stageWorker({ CALL_COUNTS: undefined, CALLER_QUOTA: undefined, ...bindings });
  await worker.cron();
  return worker;
}

const junk = { authorization: "Bearer junk" };
const callsIn = (points: readonly AnalyticsEngineDataPoint[]) =>
  points.filter(({ indexes }) => indexes?.[0] === "call");

describe("with a dataset bound", () => {
  test("each call leaves one point, with its outcome and its cluster", async () => {
    const counts = dataset();
    const { call } = await start({ CALL_COUNTS: counts });
    expect(await call()).toHaveProperty("certChain");
    await call(junk);
    expect(callsIn(counts.points)).toEqual([
      {
        indexes: ["call"],
        blobs: ["call", "issued", "", "Kubernetes"],
        doubles: [1, expect.any(Number)],
      },
      {
        indexes: ["call"],
        blobs: ["call", "refused", "credential-rejected", ""],
        doubles: [1, expect.any(Number)],
      },
    ]);
  });

  test("a call under a policy leaves the rule, and that in shadow", async () => {
    const counts = dataset();
    const rules = [
      { name: "closed", shadow: true, then: { deny: "closed" } },
      { name: "short", then: { maximum_life: "1h" } },
    ];
    const { call } = await start({ CALL_COUNTS: counts, POLICY: { rules } });
    await call();
    expect(callsIn(counts.points).map(({ blobs }) => blobs?.slice(4))).toEqual([
      ["short", "shortened", "closed", "denied"],
    ]);
  });

  test("each event leaves one point, with its level and its name", async () => {
    const counts = dataset();
    await start({ CALL_COUNTS: counts });
    const events = lines.map(parseLogLine).map(({ level, event }) => ["event", level, event]);
    expect(events.length).toBeGreaterThan(0);
    expect(counts.points.map(({ blobs }) => blobs)).toEqual(events);
  });

  test("no point holds an identity, an issuer or a token", async () => {
    const counts = dataset();
    const worker = await start({ CALL_COUNTS: counts });
    const headers = await bearer(worker);
    await worker.call(headers);
    await worker.call(junk);
    const text = JSON.stringify(counts.points);
    for (const secret of [
      "spiffe:",
      "foo",
      issuers.cluster,
      headers.authorization.slice(7),
      "127.0.0.1",
      "eyJ",
    ]) {
      expect(text).not.toContain(secret);
    }
  });

  test("a dataset that refuses points makes no call fail, and the log says so", async () => {
    const { call } = await start({ CALL_COUNTS: dataset(new Error("too many data points")) });
    lines.length = 0;
    expect(await call()).toHaveProperty("certChain");
    expect(lines.map(parseLogLine)).toMatchObject([
      { event: "create-certificate", outcome: "issued" },
      { event: "counts-not-written", level: "warning", detail: "too many data points" },
    ]);
  });

  test("the platform's own dataset takes the points", async () => {
    const { call } = await start({ CALL_COUNTS: env.CALL_COUNTS });
    lines.length = 0;
    expect(await call()).toHaveProperty("certChain");
    expect(lines.map(parseLogLine)).toMatchObject([{ event: "create-certificate" }]);
  });
});

test.each<[string, Readonly<Record<string, unknown>>]>([
  ["without the binding", {}],
  ["with a binding of another kind", { CALL_COUNTS: { limit: () => ({}) } }],
])("nothing is counted %s, and calls are answered", async (_, bindings) => {
  const { call } = await start(bindings);
  expect(await call()).toHaveProperty("certChain");
});
