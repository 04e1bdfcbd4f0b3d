import { expect, test } from "vitest";
import { rateChart } from "./chart.ts";
import { chartsOf, pageWith, type StormRun, tablesOf } from "./page.ts";
import { loadDefaults } from "./parameters.ts";
import { durationOf, lineOf } from "./report.ts";
import type { StormRow } from "./row.ts";

const row: StormRow = {
  scenario: "a cold start",
  mesh: "agents",
  server: "serve",
  workloads: 100_000,
  peakCalls: 12_345,
  peakServed: 650,
  echo: 12.5,
  lastServedSeconds: 200,
  expired: 3,
  refused: 1_000,
  unanswered: 500,
  inVain: 7,
  served: 200_000,
  dollars: 1.5,
};

const run: StormRun = {
  date: "2026-11-22",
  machine: "one < machine",
  seed: 1,
  parameters: loadDefaults(),
  rows: [{ ...row, workloads: 1_000_000 }, row],
  partSeconds: 300,
  afterColdStart: [{ name: "a < b", values: [0, 5, 2000] }],
  aroundOutage: [{ name: "agents", values: [1, 2] }],
};

test("a table has a row for each run, the smaller mesh first", () => {
  const [first, second] = tablesOf(run).split("\n\n## ");
  expect(first).toMatch(/^## A cold start, 100,000 workloads\n/);
  expect(second).toMatch(/^A cold start, 1,000,000 workloads\n/);
  expect(first).toContain(
    "| agents | `serve` | 12,345 | 650 | 3 min | 3 | 1,500 | 7 | 12.5 | 1.50 |",
  );
});

test("a page keeps its words, and changes between its marks alone", () => {
  const page = "before\n<!-- run -->\noutdated\n<!-- end of run -->\nafter\n";
  const written = pageWith(run, page);
  expect(written).toMatch(
    /^before\n<!-- run -->\n\nSimulated on 2026-11-22 [\s\S]*<!-- end of run -->\nafter\n$/,
  );
  expect(written).not.toContain("outdated");
  expect(pageWith(run, written)).toBe(written);
  expect(pageWith(run, "a page without marks")).toBe("a page without marks");
});

test("a chart escapes its words, has a line for each series and stays in its frame", () => {
  const [echo = ""] = Object.values(chartsOf(run));
  expect(echo).toContain("a &lt; b");
  expect(echo).not.toContain("a < b");
  const svg = rateChart({ title: "t", seconds: 60, note: "", series: run.afterColdStart });
  const [, points = ""] = /<path d="M([^"]+)" class="s0"/.exec(svg) ?? [];
  const places = points.split("L").map((point) => point.split(" ").map(Number));
  expect(places).toHaveLength(3);
  for (const [x = -1, y = -1] of places) {
    expect(x).toBeGreaterThanOrEqual(60);
    expect(x).toBeLessThanOrEqual(710);
    expect(y).toBeGreaterThanOrEqual(44);
    expect(y).toBeLessThanOrEqual(352);
  }
});

test.each([
  [null, "not all"],
  [0, "0 s"],
  [119, "119 s"],
  [120, "2 min"],
  [7199, "120 min"],
  [7200, "2.0 h"],
])("%s seconds are written as %s", (seconds, text) => {
  expect(durationOf(seconds)).toBe(text);
});

test("a line for the terminal has every figure", () => {
  expect(lineOf(row)).toMatch(/12,345 +650 +12.5 +3 min +3 +1,000 +500 +7 +1.50$/);
});
