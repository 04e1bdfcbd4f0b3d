import { type Latencies, partInTime, percentile } from "./latencies.ts";

/**
 * The budgets of a flood: the shares of calls and of probes in time, the memory in MiB, the share of it that stays. Two
 * thousand streams that wait take 65 MiB.
 */
export const budget = { inTime: 0.99, ready: 0.95, memory: 180, growth: 1.2 };

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
  readonly memoryAfter: number;
  /** The machine's load when the flood ended, which the flood and other programs made. */
  readonly load: number;
  readonly hasEnded: boolean;
  readonly isInterrupted: boolean;
}

/** Whether a server has given back what a flood took. */
export const isBack = (memoryNow: number, memoryBefore: number): boolean =>
  memoryNow <= budget.growth * memoryBefore;

export function isWithin(outcome: Outcome): boolean {
  const { memoryBefore, memoryPeak, memoryAfter, hasEnded, isInterrupted } = outcome;
  const isServed = partInTime(outcome.latencies) >= budget.inTime;
  const isReady = partInTime(outcome.probes) >= budget.ready;
  return (
    !hasEnded &&
    !isInterrupted &&
    isServed &&
    isReady &&
    memoryPeak <= budget.memory &&
    isBack(memoryAfter, memoryBefore)
  );
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
  "AFTER",
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
    String(latencies.length - answered.length),
    `${(100 * partInTime(latencies)).toFixed(1)} %`,
    `${Math.max(0, ...answered).toFixed(0)} ms`,
    `${(100 * partInTime(probes)).toFixed(0)} %`,
    `${percentile(latencies, 0.99).toFixed(0)} ms`,
    outcome.memoryBefore.toFixed(0),
    outcome.memoryPeak.toFixed(0),
    outcome.memoryAfter.toFixed(0),
    outcome.load.toFixed(1),
    isInterrupted ? "CUT" : verdict,
  ];
}

export function row(texts: readonly string[]): string {
  const widths = [31, 10, 6, 7, 8, 9, 6, 10, 10, 5, 5, 5, 7];
  return texts
    .map((text, i) => (i < 2 ? text.padEnd(widths[i] ?? 0) : text.padStart(widths[i] ?? 0)))
    .join(" ");
}
