import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { PhaseSchema } from "../../src/gen/rampart/status/v1/status_pb.ts";
import { phases, Schedule } from "../../src/pki/authority/schedule.ts";

const text = (path: string): string =>
  readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");

test("the clock leads through the phases in their order", () => {
  const hour = (n: number): Date => new Date(Date.UTC(2026, 0, 1, n));
  const [publishedFrom, signsFrom, signsUntil, retiresAt] = [hour(1), hour(2), hour(3), hour(4)];
  const schedule = { publishedFrom, signsFrom, signsUntil, retiresAt };
  expect([0, 1, 2, 3, 4].map((n) => Schedule.phaseAt(schedule, hour(n)))).toEqual(phases);
});

test("the page of rotation has a row for each phase, under its word, in their order", () => {
  const [, table = ""] = text("docs/explanation/rotation.md").split("| phase | begins");
  const rows = table.split("\n\n")[0]?.split("\n").slice(2) ?? [];
  expect(rows.map((row) => row.split("|")[1]?.trim())).toEqual(phases);
});

test("the picture of rotation names phases by the same words, and by no others", () => {
  const words = [...text("docs/pictures/rotation.svg").matchAll(/class="m"[^>]*>([^<]+)</g)].map(
    ([, word]) => word ?? "",
  );
  const named = words.filter((word) => !/bundle|root/.test(word));
  expect(named.length).toBeGreaterThan(0);
  expect(named.filter((word) => !phases.some((phase) => phase === word))).toEqual([]);
});

test("the console and its messages name the same phases", () => {
  const [, ...named] = PhaseSchema.values;
  expect(named.map(({ localName }) => localName.toLowerCase())).toEqual(phases);
});
