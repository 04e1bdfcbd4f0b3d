import { once } from "node:events";
import { Worker } from "node:worker_threads";
import type { Job, JobResult } from "./jobs.ts";

/** More than the slowest job takes on a busy machine, for a single case. */
const hangMilliseconds = 120_000;

/** The number of a job's case before the thread has loaded what it needs, which no input delays. */
const notBegun = Number.NaN;

/** A thread with a heap of its own, so that an input that takes too much of it ends only the thread. */
const resourceLimits = { maxOldGenerationSizeMb: 512, maxYoungGenerationSizeMb: 64 };

/** Runs jobs one after the other. A job that hangs or ends its thread fails, and the next gets a new thread. */
interface JobThread {
  readonly run: (job: Job) => Promise<JobResult>;
  readonly end: () => Promise<void>;
}

interface Started {
  readonly worker: Worker;
  readonly current: Float64Array;
}

export function createJobThread(): JobThread {
  let started: Started | undefined;

  async function run(job: Job): Promise<JobResult> {
    started ??= start();
    const { worker, current } = started;
    current[0] = notBegun;
    const over = new AbortController();
    const answer = once(worker, "message", over);
    worker.postMessage(job);
    const hanging = watch(current);
    try {
      const [result] = await Promise.race([answer, died(worker, over), hanging.begins]);
      return result as JobResult;
    } catch (error) {
      started = undefined;
      await worker.terminate();
      return { outcomes: {}, failures: [fatal(current, job, error)] };
    } finally {
      over.abort();
      hanging.end();
    }
  }

  return { run, end: async () => void (await started?.worker.terminate()) };
}

function start(): Started {
  const shared = new SharedArrayBuffer(Float64Array.BYTES_PER_ELEMENT);
  const url = new URL("./worker.ts", import.meta.url);
  const worker = new Worker(url, { workerData: shared, resourceLimits });
  return { worker, current: new Float64Array(shared) };
}

async function died(worker: Worker, over: AbortController): Promise<never> {
  const [exitCode] = await once(worker, "exit", over);
  throw new Error(`the thread ended with ${exitCode}`);
}

/** Rejects when the same case is under way for too long. No case is under way while {@link notBegun}. */
function watch(current: Float64Array): {
  readonly begins: Promise<never>;
  readonly end: () => void;
} {
  const { promise: begins, reject } = Promise.withResolvers<never>();
  let seen = current[0];
  const timer = setInterval(() => {
    if (current[0] === seen) reject(new Error("the case does not end"));
    seen = current[0];
  }, hangMilliseconds);
  return { begins, end: () => clearInterval(timer) };
}

/** The fault of a case that ended its thread. Its input is made again from its number. */
function fatal(
  [current = notBegun]: Float64Array,
  { from }: Job,
  error: unknown,
): JobResult["failures"][number] {
  const fault = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  return { fault, caseNumber: Number.isNaN(current) ? from : current, times: 1, input: "" };
}
