import type { TargetName } from "../targets/targets.ts";
import type { Failure, Job, JobResult } from "./job.ts";

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
