import { join } from "node:path";
import { WriteLine } from "../../foundation/events.ts";
import { EnvironmentProxies } from "../../program/http/proxies.ts";
import { createLambda } from "./lambda.ts";

const { LAMBDA_TASK_ROOT = process.cwd() } = process.env;

EnvironmentProxies.prepare(process.env);

/** The handler of an AWS Lambda function, which reads `rampart.toml` beside its code. */
export const handler: ReturnType<typeof createLambda> = createLambda({
  file: join(LAMBDA_TASK_ROOT, "rampart.toml"),
  environment: { ...process.env },
  clock: () => new Date(),
  write: WriteLine.toConsole,
});
