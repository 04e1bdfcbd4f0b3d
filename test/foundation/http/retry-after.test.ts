import { expect, test } from "vitest";
import { parseRetryAfter } from "../../../src/foundation/http/retry-after.ts";

test.each<[string, number]>([
  ["0", 0],
  ["7", 7],
  ["007", 7],
  ["99999", 99_999],
])("reads %j as seconds", (value, seconds) => {
  expect(parseRetryAfter(value)).toBe(seconds);
});

test.each([
  ...[null, undefined, "", " ", "-1", "+1", "1.5", "1e9", "0x10", "NaN", "Infinity"],
  ...["100000", "9".repeat(400), "7s", " 7", "7 ", "7\n", "7, 7", "٧"],
  "Wed, 21 Oct 2026 07:28:00 GMT",
])("takes %j for no wait", (value) => {
  expect(parseRetryAfter(value)).toBeUndefined();
});
