import { expect, test } from "vitest";
import { applicableValues, changedKeys } from "../../../src/node/reload/restart-keys.ts";

const atStart = { LISTEN: ":1", ISSUERS: [{ issuer: "https://a" }], KEK: "secret" };

test("applies every change but those that need a restart, and names these", () => {
  const written = { LISTEN: ":2", ISSUERS: [], STORE_DIRECTORY: "/new", KEK: "secret" };
  const keys = ["LISTEN", "STORE_DIRECTORY", "KEK"];
  expect(applicableValues(written, atStart, keys)).toEqual({
    values: { LISTEN: ":1", ISSUERS: [], KEK: "secret" },
    awaitingRestart: ["LISTEN", "STORE_DIRECTORY"],
  });
});

test("keeps a key that was removed and needs a restart", () => {
  const { values, awaitingRestart } = applicableValues({}, atStart, ["LISTEN"]);
  expect(values).toEqual({ LISTEN: ":1" });
  expect(awaitingRestart).toEqual(["LISTEN"]);
});

test("awaits no restart once a key is as it was", () => {
  expect(applicableValues(atStart, atStart, ["LISTEN"]).awaitingRestart).toEqual([]);
});

test("compares values by their content, in depth", () => {
  const same = { ISSUERS: [{ issuer: "https://a", audiences: ["x"] }] };
  expect(changedKeys(same, structuredClone(same))).toEqual([]);
  expect(changedKeys(same, { ISSUERS: [{ issuer: "https://a", audiences: ["y"] }] })).toEqual([
    "ISSUERS",
  ]);
  expect(changedKeys({ B: 1 }, { A: 1 })).toEqual(["A", "B"]);
});
