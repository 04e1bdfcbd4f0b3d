import type { Unstable_RawConfig } from "wrangler";
import { randomKek } from "../../../testkit/configuration.ts";
import { createEdgeWorker } from "../../../testkit/programs/edge-worker.ts";

/** The Worker in workerd, with its own KV namespace and its cron. */
export interface RunningWorker {
  readonly origin: string;
  readonly runCron: () => Promise<unknown>;
  readonly end: () => Promise<void>;
}

export async function startWorker(
  vars: NonNullable<Unstable_RawConfig["vars"]>,
): Promise<RunningWorker> {
  const harness = await createEdgeWorker({ vars: { ...vars, KEK: randomKek() } });
  const { url } = await harness.listen();
  const runCron = () => harness.getWorker().scheduled({ cron: "* * * * *" });
  await runCron();
  return { origin: url.origin, runCron, end: () => harness.close() };
}
