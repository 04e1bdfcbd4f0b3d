import { expect, test } from "vitest";
import { configurationOf } from "../testkit/configuration.ts";

const LOG_ORIGIN = "log.example.com/2026";
const witness =
  "witness w1 witness.rampart.test/w1+89ad0d91+BAOhB7/zzhC+HXDdGOdLwJln5NYwm6UNXx3chmQSVTG4";

test("nothing is logged without an origin", () => {
  expect(configurationOf({}).log).toBeUndefined();
  expect(configurationOf({ LOG_MODE: "required" }).log).toBeUndefined();
});

test("an origin alone logs, and demands it", () => {
  expect(configurationOf({ LOG_ORIGIN, INCEPTION_DATE: "2026-11-21" }).log).toEqual({
    origin: LOG_ORIGIN,
    mode: "required",
    inceptionDate: "2026-11-21",
    intervalSeconds: 10,
    shards: 1,
    witnesses: undefined,
    readers: [],
    hasPublicTiles: false,
  });
});

test("every key about the log counts", () => {
  const { log } = configurationOf({
    LOG_ORIGIN,
    LOG_MODE: "best-effort",
    LOG_INCEPTION_DATE: "2027-01-01",
    LOG_INTERVAL: "1m",
    LOG_SHARDS: 16,
    LOG_WITNESSES: `${witness} https://w1.test\nquorum w1\n`,
    LOG_TILES: "public",
    LOG_READERS: `${"a".repeat(32)}, ${"b".repeat(32)}`,
  });
  expect(log).toMatchObject({
    mode: "best-effort",
    inceptionDate: "2027-01-01",
    intervalSeconds: 60,
    shards: 16,
    hasPublicTiles: true,
    readers: ["a".repeat(32), "b".repeat(32)],
  });
  expect(log?.witnesses).toContain("witness w1");
});
