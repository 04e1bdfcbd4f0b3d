import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Histogram } from "prom-client";
import { describe, expect, onTestFinished, test } from "vitest";
import { Metrics } from "../../../src/program/metrics.ts";
import { openTelemetry } from "../../../src/program/otlp/telemetry.ts";
import { Program } from "../../../src/program/program.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { startTlsServer } from "../../testkit/network/loopback-tls.ts";
import {
  attributesOf,
  type PlayedCollector,
  playCollector,
} from "../../testkit/observability/collector.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";
import { eventually } from "../../testkit/time/eventually.ts";
import { createVirtualTime } from "../../testkit/time/virtual-time.ts";

const start = new Date("2026-11-28T12:00:00.250Z");
const traceId = "0af7651916cd43dd8448eb211c80319c";
const parentId = "b7ad6b7169203331";

const headerOf = (fields: Readonly<Record<string, string>>) => ({
  get: (name: string) => fields[name] ?? null,
});
const sampled = headerOf({ traceparent: `00-${traceId}-${parentId}-01` });

/** A program that exports, and the collector that it sends to. */
async function begin(
  environment: Readonly<Record<string, string>> = {},
  program = "serve",
  collector?: PlayedCollector,
) {
  const time = createVirtualTime(start);
  const log = createEventRecorder();
  const to = collector ?? (await playCollector());
  const telemetry = await openTelemetry(
    { OTEL_EXPORTER_OTLP_ENDPOINT: to.url, ...environment },
    program,
    time.clock,
  );
  const context = { log, clock: time.clock, pause: time.pause, telemetry };
  const begun = await Program.begin(context, async ({ registry }) => ({ registry }));
  onTestFinished(() => begun.close(0));
  const { spans } = telemetry ?? {};
  const call = (
    header = sampled,
    work: () => Promise<unknown> = async () => "answer",
    code?: number,
  ) => spans?.call("a.B/C", header, work, () => code);
  const dropped = async (signal: string) => {
    const text = await begun.registry.getSingleMetricAsString("rampart_telemetry_dropped_total");
    const value = new RegExp(`signal="${signal}"\\} (\\d+)`).exec(text)?.[1];
    return Number(value ?? 0);
  };
  return { ...begun, collector: to, time, log, spans, call, dropped };
}

describe("metrics", () => {
  test("go out under their names, with the resource of the program", async () => {
    const { registry, collector, time } = await begin({
      OTEL_EXPORTER_OTLP_HEADERS: "authorization=Bearer%20secret",
      OTEL_RESOURCE_ATTRIBUTES: "team=a",
    });
    const calls = Metrics.addCounter(registry, "calls_total", "Calls.", "outcome");
    calls.inc({ outcome: "issued" }, 3);
    Metrics.addReadGauge(registry, { name: "none", help: "None.", read: () => Number.NaN });
    Metrics.addReadGauge(registry, { name: "half", help: "Half.", read: () => 0.5 });
    const seconds = new Histogram({
      name: "seconds",
      help: "Seconds.",
      labelNames: ["path"],
      buckets: [1, 2],
      registers: [registry],
    });
    for (const value of [0.5, 1.5, 1.75, 9]) seconds.observe({ path: "/a" }, value);
    seconds.observe({ path: "/b" }, 2);
    await time.passUntil(() => expect(collector.metrics.get("seconds")).toBeDefined());
    const { metrics } = collector;
    const startTimeUnixNano = "1795867200250000000";
    const timeUnixNano = expect.stringMatching(/^1795\d{15}$/);
    expect(metrics.get("calls_total")).toEqual({
      name: "calls_total",
      description: "Calls.",
      sum: {
        aggregationTemporality: 2,
        isMonotonic: true,
        dataPoints: [
          {
            startTimeUnixNano,
            timeUnixNano,
            attributes: [{ key: "outcome", value: { stringValue: "issued" } }],
            asDouble: 3,
          },
        ],
      },
    });
    time.setBack(3600);
    await time.passUntil(() =>
      expect(metrics.get("half").gauge.dataPoints[0].timeUnixNano).toBe(startTimeUnixNano),
    );
    expect(metrics.get("half").gauge.dataPoints).toMatchObject([{ asDouble: 0.5 }]);
    expect(metrics.has("none")).toBe(false);
    const { dataPoints, ...histogram } = metrics.get("seconds").histogram;
    expect(histogram).toEqual({ aggregationTemporality: 2 });
    expect(dataPoints).toMatchObject([
      { count: "4", sum: 12.75, bucketCounts: ["1", "2", "1"], explicitBounds: [1, 2] },
      { count: "1", sum: 2, bucketCounts: ["0", "1", "0"], explicitBounds: [1, 2] },
    ]);
    expect(collector.resource()).toMatchObject({
      "service.name": "rampart-serve",
      "service.instance.id": expect.stringMatching(/^[0-9a-f-]{36}$/),
      team: "a",
    });
    expect(collector.requests[0]).toMatchObject({
      path: "/v1/metrics",
      headers: { authorization: "Bearer secret", "content-type": "application/json" },
    });
  });

  test("go out once an interval, and a last time at the end", async () => {
    const { collector, time, close } = await begin(
      { OTEL_METRIC_EXPORT_INTERVAL: "30000" },
      "agent",
    );
    for (const n of [1, 2, 3]) {
      await eventually(() => expect(time.pauses()).toEqual([30_000]));
      expect(collector.requests).toHaveLength(n);
      time.pass(30);
    }
    await eventually(() => expect(time.pauses()).toEqual([30_000]));
    await close(0);
    expect(collector.requests).toHaveLength(5);
    expect(time.pauses()).toEqual([]);
  });

  test("that find no collector are counted, and logged once until one is found again", async () => {
    const collector = await playCollector();
    collector.answer = () => ({ status: 503, headers: { "retry-after": "90" } });
    const { time, log, dropped } = await begin({}, "agent", collector);
    await eventually(() => expect(time.pauses()).toEqual([90_000]));
    time.pass(90);
    await eventually(() => expect(collector.requests).toHaveLength(2));
    expect(await dropped("metrics")).toBeGreaterThan(10);
    const outages = () => log.operations.filter(({ event }) => event === "telemetry-not-exported");
    expect(outages()).toEqual([
      {
        event: "telemetry-not-exported",
        level: "warning",
        signal: "metrics",
        detail: "the collector answered 503",
      },
    ]);
    collector.answer = () => ({ status: 200 });
    await time.passUntil(() => expect(collector.metrics.size).toBeGreaterThan(10));
    collector.answer = () => ({ status: 404, body: '{"message":"secret"}' });
    await time.passUntil(() => expect(outages()).toHaveLength(2));
    expect(outages()[1]).toMatchObject({ detail: "the collector answered 404" });
  });

  test("that a collector rejects in part are counted by its number, without its words", async () => {
    const collector = await playCollector();
    const partialSuccess = { rejectedDataPoints: "7", errorMessage: "secret" };
    collector.answer = () => ({ status: 200, body: JSON.stringify({ partialSuccess }) });
    const { log, dropped } = await begin({}, "agent", collector);
    const { detail } = await log.until("telemetry-not-exported");
    expect(detail).toBe("the collector rejected a part of a request");
    expect(await dropped("metrics")).toBe(7);
  });

  test("wait five minutes at most, however long a collector asks for", async () => {
    const collector = await playCollector();
    collector.answer = () => ({ status: 429, headers: { "retry-after": "86400" } });
    const { time } = await begin({}, "agent", collector);
    await eventually(() => expect(time.pauses()).toEqual([300_000]));
  });

  test("go to a collector with a certificate of the roots of a file alone", async () => {
    let requests = 0;
    const { origin, ca } = await startTlsServer((request, response) => {
      requests++;
      request.resume();
      response.end("{}");
    });
    const file = join(await temporaryFolder(), "roots.pem");
    await writeFile(file, ca);
    const to = { OTEL_EXPORTER_OTLP_ENDPOINT: origin };
    const { log } = await begin(to, "agent");
    const { detail } = await log.until("telemetry-not-exported");
    expect(detail).toContain("showed a certificate that is not accepted");
    expect(requests).toBe(0);
    await begin({ ...to, OTEL_EXPORTER_OTLP_CERTIFICATE: file }, "agent");
    await eventually(() => expect(requests).toBe(1));
    await expect(begin({ ...to, OTEL_EXPORTER_OTLP_CERTIFICATE: "/absent" })).rejects.toThrow(
      "/absent",
    );
  });
});

describe("spans", () => {
  test("of a sampled call have its parent, its event and its parts", async () => {
    const { collector, spans, call, time } = await begin();
    const state = headerOf({
      traceparent: `00-${traceId}-${parentId}-03`,
      tracestate: "vendor=a1",
      "content-type": "application/grpc+proto",
    });
    const spanId = "00f067aa0ba902b7";
    await call(state, async () => {
      await spans?.part("verify", async () => "caller");
      expect(spans?.part("sign", () => 7)).toBe(7);
      spans?.note({
        traceId,
        spanId,
        outcome: "issued",
        spiffeId: "spiffe://a/b",
        token: "secret",
      });
      spans?.note({ traceId: "f".repeat(32), spanId: "e".repeat(16), outcome: "failed" });
    });
    await time.passUntil(() => expect(collector.spans).toHaveLength(3));
    const [root, verify, sign] = collector.spans;
    expect(root).toMatchObject({
      ...{ traceId, spanId, parentSpanId: parentId, traceState: "vendor=a1", flags: 0x303 },
      ...{ name: "a.B/C", kind: 2, status: {} },
    });
    expect(attributesOf(root)).toEqual({
      "rpc.system.name": "grpc",
      "rpc.method": "a.B/C",
      "rpc.response.status_code": "OK",
      "rampart.outcome": "issued",
      "rampart.spiffe_id": "spiffe://a/b",
    });
    for (const [part, name] of [
      [verify, "verify"],
      [sign, "sign"],
    ]) {
      expect(part).toMatchObject({ name, traceId, parentSpanId: spanId, kind: 1, flags: 0x103 });
      expect(part.spanId).toMatch(/^[0-9a-f]{16}$/);
      const { startTimeUnixNano, endTimeUnixNano } = part;
      expect(BigInt(startTimeUnixNano)).toBeGreaterThanOrEqual(BigInt(root.startTimeUnixNano));
      expect(BigInt(endTimeUnixNano)).toBeLessThanOrEqual(BigInt(root.endTimeUnixNano));
    }
    expect(root.startTimeUnixNano.slice(0, 10)).toBe("1795867200");
  });

  test("of one call are seventeen at most, whatever parts it has", async () => {
    const { collector, call, spans, time } = await begin();
    await call(sampled, async () => {
      for (let i = 0; i < 40; i++) spans?.part("sign", () => i);
    });
    await time.passUntil(() => expect(collector.spans.length).toBeGreaterThan(0));
    expect(collector.spans).toHaveLength(17);
  });

  test.each([
    ["no traceparent", {}],
    ["one that is not sampled", { traceparent: `00-${traceId}-${parentId}-02` }],
    ["one that is malformed", { traceparent: `00-${traceId}-01` }],
  ])("of a call with %s are not recorded", async (_, fields) => {
    const { collector, call, spans, time } = await begin();
    await call(headerOf(fields), async () => spans?.part("sign", () => 1));
    await call();
    await time.passUntil(() => expect(collector.spans).toHaveLength(1));
  });

  test("say which fault a call and its parts ended in, and change no error", async () => {
    const { collector, spans, call, time } = await begin();
    const error = new Error("secret");
    const fail = () => {
      throw error;
    };
    await expect(call(sampled, async () => spans?.part("sign", fail))).rejects.toBe(error);
    await expect(call(sampled, async () => spans?.part("log", async () => fail()))).rejects.toBe(
      error,
    );
    await call(sampled, async () => 0, 14);
    await call(sampled, async () => 0, 7);
    await time.passUntil(() => expect(collector.spans).toHaveLength(6));
    expect(
      collector.spans.map((span) => [
        span.name,
        span.status.code,
        attributesOf(span)["error.type"],
      ]),
    ).toEqual([
      ["a.B/C", 2, "INTERNAL"],
      ["sign", 2, "fault"],
      ["a.B/C", 2, "INTERNAL"],
      ["log", 2, "fault"],
      ["a.B/C", 2, "UNAVAILABLE"],
      ["a.B/C", undefined, undefined],
    ]);
    expect(JSON.stringify(collector.spans)).not.toContain("secret");
  });

  test("wait for a collector that is away, up to a bound, and are then counted", async () => {
    const collector = await playCollector();
    collector.answer = () => ({ status: 502 });
    const { call, time, dropped, log } = await begin(
      { OTEL_METRICS_EXPORTER: "none" },
      "gateway",
      collector,
    );
    await call();
    await time.passUntil(() => expect(log.operations).toHaveLength(1));
    for (let i = 0; i < 2500; i++) await call();
    await time.passUntil(async () => expect(await dropped("traces")).toBe(2501 - 2048));
    collector.answer = () => ({ status: 200 });
    await time.passUntil(() => expect(collector.spans).toHaveLength(2048));
    expect(collector.requests.length).toBeGreaterThanOrEqual(4);
    // Those that were lost are counted once, however often spans are sent later.
    await call();
    await time.passUntil(() => expect(collector.spans).toHaveLength(2049));
    expect(new Set(collector.spans.map(({ spanId }) => spanId)).size).toBe(2049);
    expect(await dropped("traces")).toBe(2501 - 2048);
  });

  test("that are refused are counted, and not sent again", async () => {
    const collector = await playCollector();
    collector.answer = () => ({ status: 400 });
    const { call, time, dropped } = await begin(
      { OTEL_METRICS_EXPORTER: "none" },
      "serve",
      collector,
    );
    await call();
    await time.passUntil(async () => expect(await dropped("traces")).toBe(1));
    time.pass(60);
    await eventually(() => expect(time.pauses()).toEqual([1000]));
    expect(collector.requests).toHaveLength(1);
  });

  test("of the last calls are sent at the end", async () => {
    const { collector, call, close } = await begin();
    for (let i = 0; i < 600; i++) await call();
    await close(0);
    expect(collector.spans).toHaveLength(600);
  });

  test.each(["agent", "distribute", "signer"])(
    "are none of %s, which takes no calls",
    async (program) => {
      const { spans, time } = await begin({}, program);
      expect(spans).toBeUndefined();
      await eventually(() => expect(time.pauses()).toEqual([60_000]));
    },
  );
});

test("a collector that does not answer keeps no program from its end", async () => {
  const collector = await playCollector();
  collector.answer = () => undefined;
  const { close, call, log } = await begin({}, "serve", collector);
  await call();
  await eventually(() => expect(collector.requests.length).toBeGreaterThanOrEqual(1));
  await close(0);
  expect(log.operations.filter(({ event }) => event === "ending")).toEqual([]);
});
