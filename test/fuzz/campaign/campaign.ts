import { availableParallelism } from "node:os";
import { addResult, jobsOf, type Plan, type Totals } from "./jobs.ts";
import { createJobThread } from "./thread.ts";

/** A campaign as it stands: its plan, and what the jobs that are done have seen. */
export interface Progress {
  readonly plan: Plan;
  readonly totals: Totals;
}

/** When to stop, and whom to tell. */
interface Course {
  readonly mayBegin: () => boolean;
  readonly advanced: () => void;
}

/** Runs its jobs on as many threads as there are processors. */
export async function runCampaign(
  progress: Progress,
  { mayBegin, advanced }: Course,
): Promise<void> {
  const jobs = jobsOf(progress.plan);
  async function work(): Promise<void> {
    const thread = createJobThread();
    while (mayBegin()) {
      const { value: job, done } = jobs.next();
      if (done) break;
      addResult(progress.totals, job, await thread.run(job));
      advanced();
    }
    await thread.end();
  }

  await Promise.all(Array.from({ length: availableParallelism() }, work));
}
