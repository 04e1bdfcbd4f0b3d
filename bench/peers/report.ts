import { escaped, svgPage } from "../../dev/svg-page.ts";
import { median } from "../measurement/median.ts";
import type { MissingPeer, Peer } from "./peer.ts";

/** The cost of one CA's certificates in a run. */
interface Cost extends Pick<Peer, "name" | "version" | "api" | "rootKey" | "less"> {
  /** CPU of one certificate in microseconds: the median round, and the quartiles around it. */
  readonly microseconds: number;
  readonly quartiles: readonly [number, number];
}

/** A run, as its JSON holds it. */
export interface Run {
  readonly date: string;
  readonly machine: string;
  /** Processes that wanted to run during the measurement, those of the run included. */
  readonly load: number;
  /** Certificates that each CA issued before the first round. */
  readonly warmUp: number;
  readonly rounds: number;
  readonly costs: readonly Cost[];
  readonly missing: readonly MissingPeer[];
}

/** @param rounds CPU of one certificate in each round, in microseconds. */
export function costOf(peer: Peer, rounds: readonly number[]): Cost {
  const { name, version, api, rootKey, less } = peer;
  const sorted = rounds.toSorted((a, b) => a - b);
  const at = (part: number): number => sorted[Math.floor(part * (sorted.length - 1))] ?? Number.NaN;
  const quartiles = [at(0.25), at(0.75)] as const;
  return { name, version, api, rootKey, less, microseconds: median(rounds), quartiles };
}

const whole = (number: number): string => Math.round(number).toLocaleString("en-US");

/** A run as a table of Markdown. */
export function tableOf({ costs, missing }: Run): string {
  const rows = costs.map(
    ({ name, version, api, rootKey, less, microseconds, quartiles: [low, high] }) =>
      `| ${name} | ${api} | ${rootKey} | ${whole(microseconds)} µs (${whole(low)}–${whole(high)}) | ${whole(1e6 / microseconds)} | ${version} | ${less} |`,
  );
  return [
    "| CA | API | key of the root | CPU of a certificate, median (quartiles) | certificates per core-second | version | does less |",
    "| --- | --- | --- | --- | --- | --- | --- |",
    ...rows,
    ...missing.map(({ name, why }) => `| ${name} | | | not measured: ${why} | | | |`),
  ].join("\n");
}

/** The circumstances of a run, as a sentence. */
export function circumstancesOf({ date, machine, load, warmUp, rounds }: Run): string {
  return `Measured on ${date}, on ${machine} with a load of ${load.toFixed(0)}, in ${rounds} rounds after ${whole(warmUp)} certificates of each.`;
}

const chart = { width: 860, row: 34, left: 330, right: 150, top: 40 };

/** A run as a bar chart: one bar for each CA, by certificates per core-second. */
export function chartOf({ costs, date, machine }: Run): string {
  const rates = costs.map(({ microseconds }) => 1e6 / microseconds);
  const scale = (chart.width - chart.left - chart.right) / Math.max(...rates);
  const height = chart.top + chart.row * costs.length + 34;
  const bars = costs.map((cost, i) => {
    const y = chart.top + chart.row * i;
    const rate = rates[i] ?? 0;
    const kind = cost.name.startsWith("Rampart") ? "own" : "other";
    const label = `${cost.name.replaceAll("`", "")}, ${cost.rootKey}`;
    return `  <text x="${chart.left - 10}" y="${y + 11}" class="end">${escaped(label)}</text>
  <text x="${chart.left - 10}" y="${y + 25}" class="end note">${escaped(cost.api)}</text>
  <rect x="${chart.left}" y="${y}" width="${(rate * scale).toFixed(1)}" height="24" class="${kind}"/>
  <text x="${(chart.left + rate * scale + 8).toFixed(1)}" y="${y + 17}">${whole(rate)}</text>`;
  });
  const rest = costs.map(
    ({ name, api, rootKey }, i) => `${name} (${api}, ${rootKey}): ${whole(rates[i] ?? 0)}`,
  );
  return svgPage({
    width: chart.width,
    height,
    title: "Certificates that one core issues in a second",
    description: `${rest.join("; ").replaceAll("`", "")}.`,
    light: [".own { fill: #1f5a96 }", ".other { fill: #8c959f }"],
    dark: [".own { fill: #8fc1f0 }", ".other { fill: #6e7681 }"],
    body: `  <text x="${chart.left}" y="24" class="name">Certificates per second of one core</text>
${bars.join("\n")}
  <text x="${chart.left}" y="${height - 12}" class="note">${escaped(`${machine}, ${date}`)}</text>`,
  });
}
