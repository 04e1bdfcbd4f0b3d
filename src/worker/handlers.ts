import type { Environment } from "./variables.ts";

/** The handlers that the platform calls. */
export interface Worker {
  readonly fetch: (request: Request, environment: Environment) => Promise<Response>;
  /** Runs the cron, whatever its cron string. A throw shows as a failed run. */
  readonly scheduled: (event: ScheduledController, environment: Environment) => Promise<void>;
}
