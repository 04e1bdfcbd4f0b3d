import { readFileSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { OperatorError } from "../../../src/foundation/errors.ts";
import type { Series } from "./chart.ts";
import { meansOf } from "./meter.ts";
import { parseStormOptions, type StormOptions, usage } from "./options.ts";
import { chartsOf, pageWith, partSeconds, type StormRun } from "./page.ts";
import { loadParameters } from "./parameters.ts";
import { lineOf, lineTitles } from "./report.ts";
import { type StormRow, simulateCase } from "./row.ts";

/** `npm run simulate -- storm`. @returns The exit status. */
export function runStorm(args: readonly string[]): number {
  try {
    const options = parseStormOptions(args);
    if (options.help) process.stdout.write(usage);
    else if (options.write) write(options);
    else print(options);
    return 0;
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    process.stderr.write(`${error.message}\n`);
    return 2;
  }
}

function print({ cases, seed }: StormOptions): void {
  const parameters = loadParameters();
  console.log(lineTitles);
  for (const each of cases) console.log(lineOf(simulateCase(each, parameters, seed).row));
}

/** Simulates every mesh in the smaller size and, at the Worker, the mixed one in the larger. Writes the page. */
function write({ cases, seed }: StormOptions): void {
  const parameters = loadParameters();
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
    console.log(lineOf(row));
    const seriesOf = (perSecond: Float64Array): Series => ({
      name: row.mesh,
      values: meansOf(perSecond, partSeconds).map((rate) => Number(rate.toPrecision(4))),
    });
    if (isDrawn && isEcho(row)) afterColdStart.push(seriesOf(outcome.servedPerSecond));
    if (isDrawn && isOutage(row)) aroundOutage.push(seriesOf(outcome.callsPerSecond));
  }
  const date = new Date().toISOString().slice(0, 10);
  const machine = `${cpus().length} × ${cpus()[0]?.model ?? "unknown"}`;
  const drawn = { partSeconds, afterColdStart, aroundOutage };
  writeRun({ date, machine, seed, parameters, rows, ...drawn });
}

const isEcho = ({ scenario, server }: StormRow): boolean =>
  scenario === "a cold start" && server === "Worker";
const isOutage = ({ scenario, server }: StormRow): boolean =>
  scenario === "an outage of 6 hours" && server === "serve";

const pagePath = "test/simulation/storm/figures.md";

function writeRun(run: StormRun): void {
  writeFileSync(pagePath, pageWith(run, readFileSync(pagePath, "utf8")));
  writeFileSync("docs/pictures/storm.json", `${JSON.stringify(run, undefined, 2)}\n`);
  for (const [name, svg] of Object.entries(chartsOf(run))) {
    writeFileSync(`docs/pictures/${name}`, svg);
  }
}
