import { configurationKeys } from "../config/configuration.ts";

/** Variables, secrets and bindings of the Worker; nothing in it is used unchecked. */
export type Environment = Readonly<Record<string, unknown>>;

/**
 * The configuration in an environment: every known key, and every other text or list under an upper-case
 * name, which can only be a mistake. An operator may add bindings, which are objects.
 */
export function variablesOf(environment: Environment): Record<string, unknown> {
  const variables = Object.entries(environment).filter(
    ([name, value]) =>
      configurationKeys.includes(name) || (/^[A-Z]/.test(name) && isWritten(value)),
  );
  return Object.fromEntries(variables);
}

const isWritten = (value: unknown): boolean => typeof value !== "object" || Array.isArray(value);

/** The handlers that the platform calls. */
export interface Worker {
  readonly fetch: (request: Request, environment: Environment) => Promise<Response>;
  /** Runs the cron, whatever its cron string. A throw shows as a failed run. */
  readonly scheduled: (event: ScheduledController, environment: Environment) => Promise<void>;
}
