import { parentPort, workerData } from "node:worker_threads";
import { targets } from "../targets/targets.ts";
import { caseRandom } from "./case-random.ts";
import type { Failure, Job, JobResult } from "./jobs.ts";
import { judged } from "./judged.ts";
import { minimize } from "./minimize.ts";

/** The number of the case under way, for a watchdog that finds this thread hanging. */
const current = new Float64Array(workerData as SharedArrayBuffer);

/** Judges every case of a job. The first case of each fault is minimised. */
async function runJob({ seed, target: name, from, until }: Job): Promise<JobResult> {
  const target = await targets[name]();
  const outcomes: Record<string, number> = {};
  const failures = new Map<string, Failure>();
  for (let caseNumber = from; caseNumber < until; caseNumber++) {
    current[0] = caseNumber;
    const input = target.generate(caseRandom(seed, name, caseNumber));
    const judgement = await judged(target, input);
    if ("outcome" in judgement) {
      outcomes[judgement.outcome] = (outcomes[judgement.outcome] ?? 0) + 1;
      continue;
    }
    const { fault } = judgement;
    const known = failures.get(fault);
    const fails = async (smaller: Buffer<ArrayBuffer>): Promise<boolean> => {
      const again = await judged(target, smaller);
      return "fault" in again && again.fault === fault;
    };
    failures.set(
      fault,
      known
        ? { ...known, times: known.times + 1 }
        : { fault, caseNumber, times: 1, input: (await minimize(input, fails)).toString("base64") },
    );
  }
  return { outcomes, failures: [...failures.values()] };
}

parentPort?.on("message", (job: Job) => {
  void runJob(job).then((result) => parentPort?.postMessage(result));
});
