import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { stringify } from "yaml";
import { run } from "../../testkit/programs/child-process.ts";

/** Scrapes of one program: while it was well, when it was broken, and a minute later. */
type Scrapes = readonly [well: string, broken: string, later: string];

const rules = join(import.meta.dirname, "../../../deploy/observability/rules.yaml");
const isCounter = /(?:_total|_count|_sum|_bucket)$/;
const isRead = /^(?:rampart|citadel|grpc)_/;

/** The alerts of the shipped rules that fire forty minutes after a program was broken, as promtool has it. */
export async function alertsOf(
  promtool: string,
  folder: string,
  scrapes: Scrapes,
): Promise<readonly string[]> {
  const [well, broken, later] = scrapes.map(seriesIn) as [Series, Series, Series];
  const names = [...new Set([...well.keys(), ...broken.keys(), ...later.keys()])];
  const input_series = names.map((series) => ({
    series,
    values: valuesOf(series, [well.get(series), broken.get(series), later.get(series)]),
  }));
  const test = {
    rule_files: [rules],
    evaluation_interval: "1m",
    tests: [
      {
        interval: "1m",
        input_series: [
          { series: 'up{job="serve",namespace="mesh"}', values: "0x70" },
          ...input_series,
        ],
        // What fires is in promtool's answer that nothing was expected.
        promql_expr_test: [
          { expr: 'ALERTS{alertstate="firing"}', eval_time: "50m", exp_samples: [] },
        ],
      },
    ],
  };
  const file = join(folder, "alerts.test.yaml");
  await writeFile(file, stringify(test));
  const { stdout, stderr } = await run(promtool, ["test", "rules", file]);
  const said = `${stdout}${stderr}`;
  if (!/SUCCESS|got:/.test(said)) throw new Error(said);
  return [
    ...new Set([...said.matchAll(/alertname="(\w+)"/g)].map(([, name = ""]) => name)),
  ].toSorted();
}

type Series = ReadonlyMap<string, number>;

function seriesIn(exposition: string): Series {
  const lines = exposition.split("\n").flatMap((line): [string, number][] => {
    const [, name = "", labels = "", value = ""] = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
    if (!isRead.test(name) || !Number.isFinite(Number(value))) return [];
    const all = ['job="serve"', 'namespace="mesh"', ...(labels ? [labels] : [])].join(",");
    return [[`${name}{${all}}`, Number(value)]];
  });
  return new Map(lines);
}

/** Ten minutes well, then broken for an hour: counters grow as in the minute that was seen. */
function valuesOf(series: string, [well, broken, later]: readonly (number | undefined)[]): string {
  const before = well === undefined ? "_x9" : `${well}x9`;
  if (later === undefined) return broken === undefined ? before : `${before} ${broken}`;
  const growth = isCounter.test(series.split("{")[0] ?? "") ? later - (broken ?? 0) : 0;
  return `${before} ${broken ?? "_"} ${later}+${Math.max(0, growth)}x60`;
}
