import { availableParallelism } from "node:os";
import type { Job, JobResult } from "./job.ts";
import { jobsOf, type Plan } from "./plan.ts";
import { createJobThread } from "./thread.ts";
import { addResult, type Totals } from "./totals.ts";

/** A campaign as it stands: its plan, the jobs that are done, and what they saw. */
export interface Progress {
  readonly plan: Plan;
  /** Every job before this one is done, and in the totals. */
  jobsDone: number;
  readonly totals: Totals;
}

/** When to stop, and whom to tell. */
interface Course {
  readonly mayBegin: () => boolean;
  readonly advanced: (progress: Progress) => void;
}

/** Runs the jobs that are left on as many threads as there are processors. */
export async function runCampaign(
  progress: Progress,
  { mayBegin, advanced }: Course,
): Promise<void> {
  const jobs = jobsOf(progress.plan);
  for (let i = 0; i < progress.jobsDone; i++) jobs.next();
  const finished = new Map<number, readonly [Job, JobResult]>();
  let begun = progress.jobsDone;

  /** Totals hold a job only after every job before it, so that a resumed campaign counts none twice. */
  function settle(): void {
    for (;;) {
      const next = finished.get(progress.jobsDone);
      if (!next) return;
      finished.delete(progress.jobsDone);
      addResult(progress.totals, ...next);
      progress.jobsDone += 1;
      advanced(progress);
    }
  }

  async function work(): Promise<void> {
    const thread = createJobThread();
    while (mayBegin()) {
      const { value: job, done } = jobs.next();
      if (done) break;
      const number = begun++;
      finished.set(number, [job, await thread.run(job)]);
      settle();
    }
    await thread.end();
  }

  await Promise.all(Array.from({ length: availableParallelism() }, work));
}
