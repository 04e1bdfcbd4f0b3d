import { randomBytes } from "node:crypto";
import { createTestHarness } from "wrangler";

/** The Worker in workerd, with its own KV namespace and its cron. */
export interface RunningWorker {
  readonly origin: string;
  readonly runCron: () => Promise<unknown>;
  readonly end: () => Promise<void>;
}

type Variables = NonNullable<
  Extract<
    NonNullable<NonNullable<Parameters<typeof createTestHarness>[0]>["workers"]>[number],
    { vars?: unknown }
  >["vars"]
>;

/** A KEK as an operator would make one. */
export const randomKek = (): string => `interop:${randomBytes(32).toString("base64")}`;

export async function startWorker(vars: Variables): Promise<RunningWorker> {
  const secrets = { KEK: randomKek() };
  const harness = createTestHarness({
    workers: [{ configPath: "./wrangler.toml", vars, secrets }],
  });
  const { url } = await harness.listen();
  const runCron = () => harness.getWorker().scheduled({ cron: "* * * * *" });
  await runCron();
  return { origin: url.origin, runCron, end: () => harness.close() };
}
