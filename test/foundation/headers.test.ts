import { describe, expect, test } from "vitest";
import { CallTimeout, longestTimeoutMs, RetryAfter } from "../../src/foundation/headers.ts";

test.each<[string, number | undefined]>([
  ["0", 0],
  ["30000", 30_000],
  ["2147483647", longestTimeoutMs],
  ["9999999999", longestTimeoutMs],
  ["99999999999", undefined],
  ["", undefined],
  ["-1", undefined],
  ["1.5", undefined],
  ["1\n", undefined],
  ["١", undefined],
])("Connect's timeout %j is %j milliseconds", (value, milliseconds) => {
  expect(CallTimeout.parseConnect(value)).toBe(milliseconds);
});

test.each<[string, number | undefined]>([
  ["1H", 3_600_000],
  ["2M", 120_000],
  ["4m", 4],
  ["500u", 0.5],
  ["500000n", 0.5],
  ["00000001S", 1000],
  ["99999999m", 99_999_999],
  ["2147483S", 2_147_483_000],
  ["99999999H", longestTimeoutMs],
  ["123456789S", undefined],
  ["", undefined],
  ["5", undefined],
  ["1s", undefined],
  ["-1S", undefined],
  ["1.5S", undefined],
  ["1S\n", undefined],
])("gRPC's timeout %j is %j milliseconds", (value, milliseconds) => {
  expect(CallTimeout.parseGrpc(value)).toBe(milliseconds);
});

describe("the headers that Connect sees", () => {
  const capped = (init: HeadersInit) => Object.fromEntries(CallTimeout.cap(new Headers(init)));

  test.each<Record<string, string>>([
    {},
    { "grpc-timeout": "30S", authorization: "x" },
    { "connect-timeout-ms": "2147482999" },
    { "connect-timeout-ms": "soon", "grpc-timeout": "999999999H" },
  ])("are the caller's own where a timer can run as long: %j", (init) => {
    const header = new Headers(init);
    expect(CallTimeout.cap(header)).toBe(header);
  });

  test("have the longest timeout in place of a longer one", () => {
    expect(capped({ "connect-timeout-ms": "9999999999" })).toEqual({
      "connect-timeout-ms": "2147483000",
    });
    expect(capped({ "grpc-timeout": "99999999H" })).toEqual({ "grpc-timeout": "2147483S" });
  });

  test("keep what else the caller has sent", () => {
    const init = { authorization: "Bearer x", "grpc-timeout": "99999999H", "x-other": "y" };
    expect(capped(init)).toEqual({ ...init, "grpc-timeout": "2147483S" });
  });
});

test.each<[string, number]>([
  ["0", 0],
  ["7", 7],
  ["007", 7],
  ["99999", 99_999],
])("reads %j as seconds", (value, seconds) => {
  expect(RetryAfter.parse(value)).toBe(seconds);
});

test.each([
  ...[null, undefined, "", " ", "-1", "+1", "1.5", "1e9", "0x10", "NaN", "Infinity"],
  ...["100000", "9".repeat(400), "7s", " 7", "7 ", "7\n", "7, 7", "٧"],
  "Wed, 21 Oct 2026 07:28:00 GMT",
])("takes %j for no wait", (value) => {
  expect(RetryAfter.parse(value)).toBeUndefined();
});
