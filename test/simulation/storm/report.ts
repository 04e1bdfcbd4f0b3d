import type { StormRow } from "./row.ts";

const widths = [22, 14, 18, 10, 10, 10, 8, 10, 9, 11, 11, 13, 9] as const;

const titles = [
  ...["scenario", "mesh", "server", "workloads", "calls/s", "served/s", "echo/s", "last"],
  ...["expired", "refused", "unanswered", "in vain", "dollars"],
];

const columns = (cells: readonly string[]): string =>
  cells
    .map((cell, i) => (i < 3 ? cell.padEnd(widths[i] ?? 0) : cell.padStart(widths[i] ?? 0)))
    .join(" ");

/** The heads of the lines of {@link lineOf}. */
export const lineTitles: string = columns(titles);

/** A row for a terminal. */
export function lineOf(row: StormRow): string {
  return columns([
    row.scenario,
    row.mesh,
    row.server,
    whole(row.workloads),
    whole(row.peakCalls),
    whole(row.peakServed),
    String(row.echo),
    durationOf(row.lastServedSeconds),
    whole(row.expired),
    whole(row.refused),
    whole(row.unanswered),
    whole(row.inVain),
    row.dollars.toFixed(2),
  ]);
}

/** A count with separators. */
export const whole = (count: number): string => Math.round(count).toLocaleString("en-US");

/** Seconds, or from two minutes on minutes, or from two hours on hours. */
export function durationOf(seconds: number | null): string {
  if (seconds === null) return "not all";
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}
