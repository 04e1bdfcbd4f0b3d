import type { TargetName } from "../targets/targets.ts";

/** The parameters that decide every case of a campaign. */
export interface Plan {
  readonly seed: number;
  readonly count: number;
  readonly targets: readonly TargetName[];
}

const casesPerJob = 500;

/** The jobs of a plan. Targets take turns, so that a campaign cut short has tried them all. */
export function* jobsOf({ seed, count, targets }: Plan): Generator<Job> {
  const share = Math.ceil(count / targets.length);
  for (let from = 0; from < share; from += casesPerJob) {
    for (const target of targets) {
      yield { seed, target, from, until: Math.min(from + casesPerJob, share) };
    }
  }
}

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

/** The outcomes of one target. */
export interface TargetTotals {
  cases: number;
  readonly outcomes: Record<string, number>;
  readonly failures: Failure[];
}

/** The outcomes of a campaign, by target. */
export type Totals = Partial<Record<TargetName, TargetTotals>>;

/** Adds the result of a job. */
export function addResult(totals: Totals, { target, from, until }: Job, result: JobResult): void {
  const total = totals[target] ?? { cases: 0, outcomes: {}, failures: [] };
  totals[target] = total;
  total.cases += until - from;
  for (const [outcome, times] of Object.entries(result.outcomes)) {
    total.outcomes[outcome] = (total.outcomes[outcome] ?? 0) + times;
  }
  for (const failure of result.failures) addFailure(total.failures, failure);
}

function addFailure(failures: Failure[], failure: Failure): void {
  const at = failures.findIndex(({ fault }) => fault === failure.fault);
  const known = failures[at];
  if (known) failures[at] = { ...known, times: known.times + failure.times };
  else failures.push(failure);
}

/** Every fault, with the target that has it. */
export const failuresIn = (totals: Totals): (Failure & { readonly target: string })[] =>
  Object.entries(totals).flatMap(([target, { failures }]) =>
    failures.map((failure) => ({ target, ...failure })),
  );

/** The number of cases of all targets. */
export const casesIn = (totals: Totals): number =>
  Object.values(totals).reduce((sum, { cases }) => sum + cases, 0);
