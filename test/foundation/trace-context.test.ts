import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { TraceContext } from "../../src/foundation/trace-context.ts";

const traceId = "0af7651916cd43dd8448eb211c80319c";
const parentId = "b7ad6b7169203331";
const traceparent = `00-${traceId}-${parentId}-01`;

const read = (headers: Record<string, string>): TraceContext =>
  TraceContext.of(new Headers(headers));

describe("a traceparent", () => {
  test.each<[string, string, string]>([
    ["of version 00", traceparent, "01"],
    ["that is not sampled", `00-${traceId}-${parentId}-00`, "00"],
    ["with the flag of a random id", `00-${traceId}-${parentId}-03`, "03"],
    ["with flags of the future, which are dropped", `00-${traceId}-${parentId}-ff`, "03"],
    ["of a later version", `cc-${traceId}-${parentId}-01`, "01"],
    ["of a later version with more", `cc-${traceId}-${parentId}-01-what-it-says`, "01"],
  ])("%s is joined", (_, text, flags) => {
    const trace = read({ traceparent: text });
    expect(trace).toMatchObject({ traceId, parentId, flags });
    expect(trace.spanId).toMatch(/^[0-9a-f]{16}$/);
    expect(trace.spanId).not.toBe(parentId);
  });

  test.each<[string, string]>([
    ["of version ff", `ff-${traceId}-${parentId}-01`],
    ["of version 00 with more", `${traceparent}-more`],
    ["with a trace id of zeros", `00-${"0".repeat(32)}-${parentId}-01`],
    ["with a parent id of zeros", `00-${traceId}-${"0".repeat(16)}-01`],
    ["in upper case", traceparent.toUpperCase()],
    ["with a short trace id", `00-${traceId.slice(1)}-${parentId}-01`],
    ["without flags", `00-${traceId}-${parentId}`],
    ["twice", `${traceparent}, ${traceparent}`],
    ["of a later version without end", `cc-${traceId}-${parentId}-01-${"x".repeat(300)}`],
  ])("%s begins a new trace", (_, text) => {
    const trace = read({ traceparent: text, tracestate: "a=1" });
    expect(trace.traceId).toMatch(/^[0-9a-f]{32}$/);
    expect(trace.traceId).not.toBe(traceId);
    expect(TraceContext.logFields(trace)).not.toHaveProperty("parentId");
    expect(TraceContext.headers(trace)).not.toHaveProperty("tracestate");
  });
});

describe("a tracestate", () => {
  test.each<[string, string]>([
    ["of one member", "congo=t61rcWkgMzE"],
    ["of a tenant's member and another", "fw529a3039@dt=FfgDEQ, rojo=00f067aa0ba902b7"],
    ["of 32 members", Array.from({ length: 32 }, (_, i) => `k${i}=1`).join(",")],
    ["of 512 characters", `a=${"x".repeat(255)},b=${"x".repeat(252)}`],
  ])("%s is passed on as it is", (_, tracestate) => {
    expect(TraceContext.headers(read({ traceparent, tracestate })).tracestate).toBe(tracestate);
  });

  test.each<[string, string]>([
    ["without a value", "congo="],
    ["without a key", "=1"],
    ["with a key in upper case", "Congo=1"],
    ["with an equals sign in a value", "a=b=c"],
    ["with other letters", "a=\u00e9"],
    ["of 33 members", Array.from({ length: 33 }, (_, i) => `k${i}=1`).join(",")],
    ["of 513 characters", `a=${"x".repeat(255)},b=${"x".repeat(253)}`],
  ])("%s is dropped, and the trace goes on", (_, tracestate) => {
    expect(TraceContext.headers(read({ traceparent, tracestate }))).toEqual({
      traceparent: expect.stringContaining(traceId),
    });
  });
});

test("what one program sends the next one joins", () => {
  const first = TraceContext.create();
  const second = TraceContext.of(new Headers(TraceContext.headers(first)));
  expect(second).toMatchObject({ traceId: first.traceId, parentId: first.spanId });
  expect(TraceContext.logFields(second)).toEqual({
    traceId: first.traceId,
    parentId: first.spanId,
    spanId: second.spanId,
  });
});

test("whatever a stranger sends, a line gets hexadecimal digits alone", () => {
  const noise = fc.oneof(
    fc.string({ unit: fc.constantFrom(...'0af-",{}\\ =\t', traceId, parentId), maxLength: 60 }),
    fc.stringMatching(/^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}.{0,4}$/),
  );
  const isHeader = (value: string): boolean => /^[\t\x20-\x7e]*$/.test(value);
  fc.assert(
    fc.property(noise.filter(isHeader), noise.filter(isHeader), (parent, tracestate) => {
      const trace = read({ traceparent: parent, tracestate });
      for (const value of Object.values(TraceContext.logFields(trace))) {
        expect(value).toMatch(/^(?:[0-9a-f]{16}|[0-9a-f]{32})$/);
      }
      expect(JSON.stringify(TraceContext.headers(trace)).length).toBeLessThan(1200);
    }),
  );
});
