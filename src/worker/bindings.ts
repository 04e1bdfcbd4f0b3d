import type { EventLog } from "../ca/issuance/audit-event.ts";
import type { Quota } from "../ca/issuance/quotas.ts";
import { configurationKeys, isSecretKey } from "../config/configuration.ts";
import { ConfigurationError, type QuotaName } from "../foundation/errors.ts";
import { logFault, type OperationLog } from "../foundation/events.ts";

/** What the platform keeps from a CA, in a sentence. docs/tutorials/worker.md has it too. */
export const workerLimits =
  "A Worker has no trailers, a client certificate only where the zone asks for one, no timer between requests but its cron, and no files";

/** The part of a rate-limit binding of Workers that a quota needs. */
interface RateLimitBinding {
  readonly limit: (options: { readonly key: string }) => Promise<{ readonly success: boolean }>;
}

/** The platform does not say when there is something left of a minute: a sixth of the minute is a guess. */
const waitSeconds = 10;

/**
 * A quota by a rate limit of the platform, which counts in each data centre. Without the binding there is
 * no limit, and the log says so. A platform that cannot count must not stop the mesh.
 */
export function boundQuota(quota: QuotaName, binding: unknown, log: OperationLog): Quota {
  if (!isRateLimit(binding)) {
    const detail = `${bindingNames[quota]}: is not bound, so one ${quota} may take any number of certificates`;
    log.operation({ event: "configuration-warning", level: "warning", detail });
    return () => 0;
  }
  return async (key) => {
    try {
      return (await binding.limit({ key })).success ? 0 : waitSeconds;
    } catch (error) {
      logFault(log, "quota-unknown", error);
      return 0;
    }
  };
}

/** The names of the bindings, the same as the keys of `rampart serve`. */
export const bindingNames = { caller: "CALLER_QUOTA", issuer: "ISSUER_QUOTA" } as const;

function isRateLimit(binding: unknown): binding is RateLimitBinding {
  return typeof binding === "object" && binding !== null && "limit" in binding;
}

export const callCountsBinding = "CALL_COUNTS";

/** The part of such a dataset that the counters need. It buffers: it neither waits nor answers. */
type Dataset = Pick<AnalyticsEngineDataset, "writeDataPoint">;

/**
 * A log whose events leave data points, where the binding is there. A point has no identity and nothing that
 * a caller chooses: the cluster of an authenticated caller, the outcome, the reason, the rule, the duration. It
 * never makes a call fail.
 */
export function countingInDataset(log: EventLog, binding: unknown): EventLog {
  if (!isDataset(binding)) return log;
  const write = (blobs: [kind: string, ...more: string[]], milliseconds = 0): void => {
    try {
      binding.writeDataPoint({ indexes: [blobs[0]], blobs, doubles: [1, milliseconds] });
    } catch (error) {
      logFault(log, "counts-not-written", error);
    }
  };
  return {
    audit: (event) => {
      log.audit(event);
      const { outcome, reason = "", cluster = "", durationMilliseconds, policy } = event;
      const { rule = "", effect = "", shadowRule = "", shadowEffect = "" } = event;
      const decision = policy === undefined ? [] : [rule, effect, shadowRule, shadowEffect];
      write(["call", outcome, reason, cluster, ...decision], durationMilliseconds);
    },
    operation: (event) => {
      log.operation(event);
      write(["event", event.level, event.event]);
    },
  };
}

function isDataset(binding: unknown): binding is Dataset {
  return typeof binding === "object" && binding !== null && "writeDataPoint" in binding;
}

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

/** A secret that could not be read now. The next request asks for it again. */
export class StoredSecretError extends ConfigurationError {}

/**
 * The environment with the texts of the secrets that are bindings of Cloudflare's Secrets Store. Without such a
 * binding, it is the same environment.
 *
 * @throws StoredSecretError
 */
export async function withStoredSecrets(environment: Environment): Promise<Environment> {
  const stored = Object.entries(environment).filter(
    (entry): entry is [string, StoredSecret] => isSecretKey(entry[0]) && isStored(entry[1]),
  );
  if (stored.length === 0) return environment;
  const texts = stored.map(async ([name, secret]): Promise<[string, string]> => {
    try {
      return [name, await secret.get()];
    } catch {
      throw new StoredSecretError([`${name}: the Secrets Store does not give it`]);
    }
  });
  return { ...environment, ...Object.fromEntries(await Promise.all(texts)) };
}

interface StoredSecret {
  get(): Promise<string>;
}

const isStored = (value: unknown): value is StoredSecret =>
  typeof value === "object" && value !== null && "get" in value;

const isWritten = (value: unknown): boolean => typeof value !== "object" || Array.isArray(value);

export interface Worker {
  readonly fetch: (request: Request, environment: Environment) => Promise<Response>;
  /** Runs the cron, whatever its cron string. A throw shows as a failed run. */
  readonly scheduled: (event: ScheduledController, environment: Environment) => Promise<void>;
}
