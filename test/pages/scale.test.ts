import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { chartsOf, pageWith, type StormRun } from "../simulation/storm/page.ts";
import { meshes, serverNames } from "../simulation/storm/row.ts";
import { scenarios } from "../simulation/storm/scenario.ts";

const read = (path: string): string =>
  readFileSync(new URL(`../../docs/${path}`, import.meta.url), "utf8");

const run: StormRun = JSON.parse(read("pictures/storm.json"));

test("the page of storms holds the figures of its run, and no others", () => {
  const page = read("../test/simulation/storm/figures.md");
  expect(pageWith(run, page)).toBe(page);
});

test("the pictures of scale are drawn from the same run", () => {
  for (const [name, svg] of Object.entries(chartsOf(run))) {
    expect(read(`pictures/${name}`)).toBe(svg);
  }
});

test("the run has every scenario, mesh and server, once in a size", () => {
  const nameOf = (scenario: string, mesh: string, server: string) =>
    [scenario, mesh, server].join();
  const small = run.rows.filter(({ workloads }) => workloads === 100_000);
  expect(small.map((row) => nameOf(row.scenario, row.mesh, row.server)).toSorted()).toEqual(
    scenarios
      .flatMap(({ name }) =>
        Object.keys(meshes).flatMap((mesh) =>
          serverNames.map((server) => nameOf(name, mesh, server)),
        ),
      )
      .toSorted(),
  );
});

test("changed figures would change the page", () => {
  const page = read("../test/simulation/storm/figures.md");
  const rows = run.rows.map((row) => ({ ...row, expired: row.expired + 1 }));
  expect(pageWith({ ...run, rows }, page)).not.toBe(page);
});
