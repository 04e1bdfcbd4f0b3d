import type { TargetName } from "../targets/targets.ts";

/** Consecutive cases of one target. */
export interface Job {
  readonly seed: number;
  readonly target: TargetName;
  readonly from: number;
  readonly until: number;
}

/** A fault of one target, with the first case that showed it. */
export interface Failure {
  readonly fault: string;
  readonly caseNumber: number;
  readonly times: number;
  /** The minimised input, base64. */
  readonly input: string;
}

/** The result of a job: how often each outcome occurred, and the faults. */
export interface JobResult {
  readonly outcomes: Readonly<Record<string, number>>;
  readonly failures: readonly Failure[];
}
