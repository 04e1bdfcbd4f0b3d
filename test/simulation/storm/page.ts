import { rateChart, type Series } from "./chart.ts";
import type { StormParameters } from "./parameters.ts";
import type { StormRow } from "./row.ts";

/** A whole simulation, as its JSON holds it. */
export interface StormRun {
  readonly date: string;
  readonly machine: string;
  readonly seed: number;
  readonly parameters: StormParameters;
  readonly rows: readonly StormRow[];
  /** Means of parts of so many seconds, of each mesh: certificates of the Worker, and calls to `serve`. */
  readonly partSeconds: number;
  readonly afterColdStart: readonly Series[];
  readonly aroundOutage: readonly Series[];
}

export const partSeconds = 300;

/** A table of Markdown for each scenario and size. */
function tablesOf({ rows }: StormRun): string {
  const groups = Object.entries(
    Object.groupBy(rows, ({ scenario, workloads }) => `${scenario}, ${whole(workloads)} workloads`),
  );
  return groups
    .toSorted(([, a], [, b]) => (a?.[0]?.workloads ?? 0) - (b?.[0]?.workloads ?? 0))
    .map(([name, group]) => tableOf(name, group ?? []))
    .join("\n\n");
}

/** The heads of the lines of {@link lineOf}. */
export const titles =
  "| mesh | server | calls/s, peak | certificates/s, peak | last one served after | expired | refused | in vain | echo/s | dollars |";

/** A row as a line of Markdown. */
export function lineOf(row: StormRow): string {
  const cells = [
    ...[row.mesh, `\`${row.server}\``, whole(row.peakCalls), whole(row.peakServed)],
    ...[durationOf(row.lastServedSeconds), whole(row.expired)],
    ...[whole(row.refused + row.unanswered), whole(row.inVain)],
    ...[String(row.echo), row.dollars.toFixed(2)],
  ];
  return `| ${cells.join(" | ")} |`;
}

function tableOf(name: string, rows: readonly StormRow[]): string {
  return [
    `## ${name.charAt(0).toUpperCase()}${name.slice(1)}`,
    "",
    titles,
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ...rows.map(lineOf),
  ].join("\n");
}

/** A count with separators. */
export const whole = (count: number): string => Math.round(count).toLocaleString("en-US");

/** Seconds, or from two minutes on minutes, or from two hours on hours. */
function durationOf(seconds: number | null): string {
  if (seconds === null) return "not all";
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}

/** The circumstances of a run, as a sentence. */
function circumstancesOf({ date, machine, seed, parameters }: StormRun): string {
  const { workerMicroseconds, serveMicroseconds, serveTwiceMicroseconds } = parameters;
  const { connectionMicroseconds, refusalMicroseconds, prices } = parameters;
  return `Simulated on ${date} with seed ${seed}, on ${machine}. A certificate takes ${whole(workerMicroseconds)} µs of CPU in the Worker, ${whole(serveMicroseconds)} µs in \`serve\` and ${whole(serveTwiceMicroseconds)} µs in \`serve\` with two processes. A connection of its own adds ${whole(connectionMicroseconds)} µs in \`serve\`, and one without a place takes ${whole(refusalMicroseconds)} µs. A million calls cost $${prices.requestMillion}, a million milliseconds of CPU $${prices.cpuMillisecondMillion} and a million reads of KV $${prices.kvReadMillion}; a core costs $${prices.coreHour} an hour.`;
}

/** The pictures of a run, by their names in `docs/pictures`. */
export function chartsOf(run: StormRun): Readonly<Record<string, string>> {
  const note = `100,000 workloads, ${run.date}`;
  return {
    "storm-echo.svg": rateChart({
      title: "Certificates in a second after a cold start, by the Worker",
      seconds: run.partSeconds,
      series: run.afterColdStart,
      note,
    }),
    "storm-outage.svg": rateChart({
      title: "Calls in a second to serve, which is away from hour 1 to hour 7",
      seconds: run.partSeconds,
      series: run.aroundOutage,
      note,
    }),
  };
}

const marks = /(<!-- run -->\n)[\s\S]*(<!-- end of run -->)/;

/** A page with the tables of a run between its marks. */
export function pageWith(run: StormRun, page: string): string {
  return page.replace(
    marks,
    (_, begin, end) => `${begin}\n${circumstancesOf(run)}\n\n${tablesOf(run)}\n\n${end}`,
  );
}
