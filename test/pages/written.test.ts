import { createHash } from "node:crypto";
import { describe, expect, test } from "vitest";
import { buildConsole } from "../../dev/build-console.ts";
import { cliReference } from "../../dev/cli-reference.ts";
import { logPages } from "../../dev/log-pages.ts";
import { withFindingsAndAlerts } from "../../dev/troubles-page.ts";
import { script } from "../../src/gen/console/script.ts";
import { scriptIntegrity, scriptPath } from "../../src/gen/console/script-name.ts";
import { chartsOf, type StormRun, pageWith as withFigures } from "../simulation/storm/page.ts";
import { meshes, serverNames } from "../simulation/storm/row.ts";
import { scenarios } from "../simulation/storm/scenario.ts";
import { type Seen, pageWith as withOutages } from "../testkit/outages/page.ts";
import { rows } from "../testkit/outages/rows.ts";
import { read } from "./page-files.ts";

const run: StormRun = JSON.parse(read("docs/pictures/storm.json"));
const seen: Seen = JSON.parse(read("test/testkit/outages/seen.json"));
const troubles = "docs/how-to/troubleshoot.md";
const figures = "test/simulation/storm/figures.md";

/** Each file of this repository that a program writes, wholly or in part, as it would be written now. */
const written: readonly (readonly [path: string, text: string])[] = [
  ["docs/reference/cli.md", await cliReference()],
  ...Object.entries(logPages).map(([name, filled]) => {
    const path = `docs/how-to/${name}`;
    return [path, filled(read(path))] as const;
  }),
  [troubles, withFindingsAndAlerts(read(troubles))],
  [troubles, withOutages(seen, read(troubles))],
  [figures, withFigures(run, read(figures))],
  ...Object.entries(chartsOf(run)).map(([name, svg]) => [`docs/pictures/${name}`, svg] as const),
  ...Object.entries(await buildConsole()).map(
    ([name, text]) => [`src/gen/console/${name}`, text] as const,
  ),
];

test.each(written)(
  "%s is what its program writes: `npm run generate`, or a suite",
  (path, text) => {
    // Not toBe: the difference of two pages would fill the screen.
    expect(read(path) === text).toBe(true);
  },
);

test("path and integrity of the console's script are of its digest", () => {
  const digest = createHash("sha256").update(script).digest();
  expect(scriptPath).toBe(`/console/${digest.toString("hex").slice(0, 16)}.js`);
  expect(scriptIntegrity).toBe(`sha256-${digest.toString("base64")}`);
});

describe("the figures of storms", () => {
  test("have every scenario, mesh and server, once in a size", () => {
    const expected = scenarios.flatMap(({ name }) =>
      Object.keys(meshes).flatMap((mesh) => serverNames.map((server) => [name, mesh, server])),
    );
    const small = run.rows.filter(({ workloads }) => workloads === 100_000);
    const played = small.map(({ scenario, mesh, server }) => [scenario, mesh, server]);
    expect(played.toSorted()).toEqual(expected.toSorted());
  });

  test("would change the page", () => {
    const changed = run.rows.map((row) => ({ ...row, expired: row.expired + 1 }));
    expect(withFigures({ ...run, rows: changed }, read(figures))).not.toBe(read(figures));
  });
});

describe("the outages", () => {
  test("were all seen, and each has a section that says what to do", () => {
    expect(read(troubles)).toContain("| what is wrong |");
    expect(seen.map(({ name }) => name)).toEqual(rows.map(({ name }) => name));
    const headings = [...read(troubles).matchAll(/^##+ (.*)$/gm)].map(([, heading = ""]) =>
      heading.toLowerCase(),
    );
    for (const { name, advice } of rows) expect(headings, name).toContain(advice.anchor);
  });

  test("have no green light, and no advice that fails", () => {
    for (const { name, kind } of rows) {
      const found = seen.find((each) => each.name === name);
      expect(found?.cured, name).not.toBe(false);
      if (kind === "danger") continue;
      const lights = [found?.status === 200, found?.metric === "1", found?.page?.ready];
      expect(lights, name).not.toContain(true);
      expect(found?.alerts, name).not.toEqual([]);
      expect(found?.doctor.code, name).toBeGreaterThan(2);
    }
  });
});
