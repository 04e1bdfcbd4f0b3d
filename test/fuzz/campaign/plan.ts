import type { TargetName } from "../targets/targets.ts";
import type { Job } from "./job.ts";

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
