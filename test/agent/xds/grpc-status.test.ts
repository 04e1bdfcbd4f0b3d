import { expect, test } from "vitest";
import {
  isExpected,
  parseStatus,
  statusOfHttp,
  statusOfReset,
  toTrailers,
} from "../../../src/agent/xds/grpc-status.ts";

test.each([
  ["plain: a/b", "plain: a/b"],
  ["100 %", "100 %25"],
  ["a\nb", "a%0ab"],
  ["für", "f%c3%bcr"],
])("writes and reads the message %o", (message, encoded) => {
  const trailers = toTrailers({ code: 7, message, details: "AAAA" });
  expect(trailers).toEqual({
    "grpc-status": "7",
    "grpc-message": encoded,
    "grpc-status-details-bin": "AAAA",
  });
  expect(parseStatus(trailers as Record<string, string>)).toEqual({
    code: 7,
    message,
    details: "AAAA",
  });
});

test("leaves a message alone that is not encoded as it should be", () => {
  expect(parseStatus({ "grpc-status": "2", "grpc-message": "100 % of %zz" })?.message).toBe(
    "100 % of %zz",
  );
});

test.each([[{}], [{ "grpc-status": "seven" }], [{ "grpc-status": "1.5" }]])(
  "finds no status in %o",
  (headers) => {
    expect(parseStatus(headers)).toBeUndefined();
  },
);

test.each([
  [503, 14],
  [401, 16],
  [403, 7],
  [404, 12],
  [418, 2],
])("HTTP status %d is gRPC's %d", (http, code) => {
  expect(statusOfHttp(http).code).toBe(code);
});

test.each([
  [0, 14],
  [8, 1],
  [7, 14],
  [11, 8],
  [1, 13],
])("HTTP/2 error %d is gRPC's %d", (error, code) => {
  expect(statusOfReset(error).code).toBe(code);
});

test.each([
  [0, "", true],
  [1, "", true],
  [4, "", true],
  [14, "transport is closing", true],
  [14, "client disconnected", true],
  [14, "error reading from server: EOF", true],
  [14, "connection refused", false],
  [7, "authorization failed", false],
  [13, "", false],
])("tells whether an end with %d %o is expected", (code, message, expected) => {
  expect(isExpected({ code, message })).toBe(expected);
});
