import { expect, test } from "vitest";
import { formatInstant, formatTable } from "../../../src/cli/terminal/table.ts";

test("a column is as wide as its longest cell, headings included, and no line ends in blanks", () => {
  const rows = [
    ["a", "signing", "x"],
    ["abcdef", "no", ""],
  ];
  expect(formatTable(["ID", "PHASE", "LAST"], rows).split("\n")).toEqual([
    "ID      PHASE    LAST",
    "a       signing  x",
    "abcdef  no",
  ]);
});

test("a table without rows prints its headings", () => {
  expect(formatTable(["ID", "PHASE"], [])).toBe("ID  PHASE");
});

test("an instant prints to the minute, in UTC, and is never rounded up", () => {
  expect(formatInstant(new Date("2026-11-21T23:59:59.999Z"))).toBe("2026-11-21 23:59Z");
  expect(formatInstant(new Date("2026-11-22T01:00:00.000+02:00"))).toBe("2026-11-21 23:00Z");
});
