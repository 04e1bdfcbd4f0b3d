import { type Latencies, partInTime, percentile } from "./latencies.ts";

/** The budgets of a flood: the shares of calls and of probes in time, the resident memory in MiB. No call is refused. */
export const budget = { inTime: 0.99, ready: 0.95, memory: 220 };

/** The figures of a server and of its honest caller. */
export interface Outcome {
  readonly method: string;
  readonly server: string;
  readonly latencies: Latencies;
  /** Answers of `/readyz` meanwhile. */
  readonly probes: Latencies;
  /** Resident, in MiB. */
  readonly memoryBefore: number;
  readonly memoryPeak: number;
  /** The machine's load when the flood ended, which the flood and other programs made. */
  readonly load: number;
  readonly hasEnded: boolean;
  readonly isInterrupted: boolean;
}

/** The calls that failed, or had no answer within five times the deadline. */
const refused = (latencies: Latencies): number =>
  latencies.filter(({ milliseconds }) => !Number.isFinite(milliseconds)).length;

export function isWithin(outcome: Outcome): boolean {
  const { latencies, probes, memoryPeak, hasEnded, isInterrupted } = outcome;
  const isServed = refused(latencies) === 0 && partInTime(latencies) >= budget.inTime;
  const isReady = partInTime(probes) >= budget.ready;
  return !hasEnded && !isInterrupted && isServed && isReady && memoryPeak <= budget.memory;
}

/** `SERVER CPU` is what the server computed during a call, for all: it depends less on the machine's other work. */
export const header: readonly string[] = [
  "METHOD",
  "SERVER",
  "CALLS",
  "REFUSED",
  "IN TIME",
  "SLOWEST",
  "READY",
  "SERVER CPU",
  "MIB BEFORE",
  "PEAK",
  "LOAD",
  "",
];

export function cells(outcome: Outcome): string[] {
  const { latencies, probes, hasEnded, isInterrupted } = outcome;
  const answered = latencies.map((each) => each.milliseconds).filter(Number.isFinite);
  const verdict = isWithin(outcome) ? "within" : hasEnded ? "ENDED" : "MISSED";
  return [
    outcome.method,
    outcome.server,
    String(latencies.length),
    String(refused(latencies)),
    `${(100 * partInTime(latencies)).toFixed(1)} %`,
    `${Math.max(0, ...answered).toFixed(0)} ms`,
    `${(100 * partInTime(probes)).toFixed(0)} %`,
    `${percentile(latencies, 0.99).toFixed(0)} ms`,
    outcome.memoryBefore.toFixed(0),
    outcome.memoryPeak.toFixed(0),
    outcome.load.toFixed(1),
    isInterrupted ? "CUT" : verdict,
  ];
}

export function row(texts: readonly string[]): string {
  const widths = [31, 10, 6, 7, 8, 9, 6, 10, 10, 5, 5, 7];
  return texts
    .map((text, i) => (i < 2 ? text.padEnd(widths[i] ?? 0) : text.padStart(widths[i] ?? 0)))
    .join(" ");
}
