import { readFileSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { parseArgs } from "node:util";
import { optionsOf, wholeNumber } from "../../testkit/programs/options.ts";
import type { Series } from "./chart.ts";
import { meansOf } from "./meter.ts";
import { chartsOf, lineOf, pageWith, partSeconds, type StormRun, titles, whole } from "./page.ts";
import { loadParameters, type StormParameters } from "./parameters.ts";
import { meshes, type StormCase, type StormRow, serverNames, simulateCase } from "./row.ts";
import { scenarios } from "./scenario.ts";

const usage = `npm run simulate -- storm [options]

Simulates how a mesh asks for certificates after an event, in virtual time.

  --workloads <N,…>     sizes of the mesh (100000,1000000)
  --scenario <text>     only scenarios whose name contains it
  --mesh <name>         only this mesh: ${Object.keys(meshes).join(", ")}
  --server <name>       only this server: ${serverNames.join(", ")}
  --seed <N>            of the pseudo-random numbers (1)
  --write               writes test/simulation/storm/figures.md and its pictures: every mesh of 100,000
                        workloads, and the mixed one of 1,000,000 at the Worker`;

/** `npm run simulate -- storm`. */
export function runStorm(words: string[]): void {
  const { cases, seed, writes } = optionsOf(usage, parseStormOptions, words);
  const parameters = loadParameters();
  if (writes) write(cases, parameters, seed);
  else {
    console.log(titles);
    for (const each of cases) print(simulateCase(each, parameters, seed).row);
  }
}

function parseStormOptions(args: string[]) {
  const text = { type: "string" } as const;
  const { write, seed, ...selected } = parseArgs({
    args,
    options: {
      workloads: text,
      seed: { ...text, default: "1" },
      scenario: text,
      mesh: text,
      server: text,
      write: { type: "boolean", default: false },
    },
  }).values;
  const { workloads = "100000,1000000", scenario = "", mesh, server } = selected;
  const sizes = workloads.split(",").map((size) => wholeNumber("--workloads", size));
  if (write && Object.keys(selected).length > 0)
    throw new Error("--write writes all rows, so it goes with no selection");
  const cases = scenarios
    .filter(({ name }) => name.includes(scenario))
    .flatMap((each) =>
      Object.keys(meshes)
        .filter((name) => name === (mesh ?? name))
        .flatMap((name) =>
          serverNames
            .filter((one) => one === (server ?? one))
            .flatMap((one) =>
              sizes.map((size) => ({ scenario: each, mesh: name, server: one, workloads: size })),
            ),
        ),
    );
  if (cases.length === 0) throw new Error("there is no such scenario, mesh or server");
  return { cases, seed: wholeNumber("--seed", seed), writes: write };
}

const print = (row: StormRow): void =>
  console.log(`${row.scenario}, ${whole(row.workloads)} workloads: ${lineOf(row)}`);

/** Simulates every mesh in the smaller size and, at the Worker, the mixed one in the larger. Writes the page. */
function write(cases: readonly StormCase[], parameters: StormParameters, seed: number): void {
  const smallest = Math.min(...cases.map(({ workloads }) => workloads));
  const rows: StormRow[] = [];
  const afterColdStart: Series[] = [];
  const aroundOutage: Series[] = [];
  for (const each of cases) {
    const isDrawn = each.workloads === smallest;
    // A million at serve take minutes each, and tell no more.
    if (!isDrawn && (each.mesh !== "mixed" || each.server !== "Worker")) continue;
    const { row, outcome } = simulateCase(each, parameters, seed);
    rows.push(row);
    print(row);
    const seriesOf = (perSecond: Float64Array): Series => ({
      name: row.mesh,
      values: meansOf(perSecond, partSeconds).map((rate) => Number(rate.toPrecision(4))),
    });
    if (!isDrawn) continue;
    if (row.scenario === "a cold start" && row.server === "Worker")
      afterColdStart.push(seriesOf(outcome.servedPerSecond));
    if (row.scenario === "an outage of 6 hours" && row.server === "serve")
      aroundOutage.push(seriesOf(outcome.callsPerSecond));
  }
  const date = new Date().toISOString().slice(0, 10);
  const machine = `${cpus().length} × ${cpus()[0]?.model ?? "unknown"}`;
  const drawn = { partSeconds, afterColdStart, aroundOutage };
  writeRun({ date, machine, seed, parameters, rows, ...drawn });
}

const pagePath = "test/simulation/storm/figures.md";

function writeRun(run: StormRun): void {
  writeFileSync(pagePath, pageWith(run, readFileSync(pagePath, "utf8")));
  writeFileSync("docs/pictures/storm.json", `${JSON.stringify(run, undefined, 2)}\n`);
  for (const [name, svg] of Object.entries(chartsOf(run))) {
    writeFileSync(`docs/pictures/${name}`, svg);
  }
}
