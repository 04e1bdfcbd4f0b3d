import type { EventLog } from "../ca/issuance/event-log.ts";
import type { Quotas } from "../ca/issuance/quotas.ts";
import { OperationLog } from "../foundation/events.ts";
import type { QuotaName } from "../foundation/refusal.ts";
import { type Environment, isBinding } from "./variables.ts";

/** What a CA lacks on this platform, in a sentence, which docs/tutorials/worker.md repeats. */
export const workerLimits =
  "A Worker has no trailers, a client certificate only where the zone asks for one, no timer between requests but its cron, and no files";

/** The part of a rate-limit binding of Workers that a quota needs. */
interface RateLimitBinding {
  readonly limit: (options: { readonly key: string }) => Promise<{ readonly success: boolean }>;
}

/** A guess, because the platform does not say when its limit for each minute allows the next call. */
const waitSeconds = 10;

/**
 * Creates quotas from the platform's rate limits, which count in each data centre. Without a binding, or if it
 * fails, calls are not limited, so that the mesh goes on; both are logged.
 */
export const boundQuotas = (environment: Environment, log: OperationLog): Quotas => ({
  caller: boundQuota("caller", environment, log),
  issuer: boundQuota("issuer", environment, log),
});

function boundQuota(
  quota: QuotaName,
  environment: Environment,
  log: OperationLog,
): Quotas["caller"] {
  const binding = environment[quotaBindings[quota]];
  if (!isBinding<RateLimitBinding>(binding, "limit")) {
    const detail = `${quotaBindings[quota]}: is not bound, so one ${quota} may take any number of certificates`;
    log.operation({ event: "configuration-warning", level: "warning", detail });
    return () => 0;
  }
  return async (key) => {
    try {
      return (await binding.limit({ key })).success ? 0 : waitSeconds;
    } catch (error) {
      OperationLog.logFault(log, "quota-unknown", error);
      return 0;
    }
  };
}

/** The names of the rate-limit bindings, the same as the keys of `rampart serve`. */
const quotaBindings = { caller: "CALLER_QUOTA", issuer: "ISSUER_QUOTA" } as const;

/** The part of a dataset that the counters use. Writing is buffered: it neither waits nor returns anything. */
type Dataset = Pick<AnalyticsEngineDataset, "writeDataPoint">;

/**
 * Wraps a log so that each event also writes a data point, if `CALL_COUNTS` is bound to a dataset of Analytics Engine.
 * A point has no identity and nothing that a caller chooses. That of a call has the cluster of the authenticated caller,
 * the outcome, the reason, the rules with their effects, and the duration; that of an operation event its level and name.
 * It never makes a call fail.
 */
export function countingInDataset(log: EventLog, { CALL_COUNTS }: Environment): EventLog {
  if (!isBinding<Dataset>(CALL_COUNTS, "writeDataPoint")) return log;
  const write = (blobs: [kind: string, ...more: string[]], milliseconds = 0): void => {
    try {
      CALL_COUNTS.writeDataPoint({ indexes: [blobs[0]], blobs, doubles: [1, milliseconds] });
    } catch (error) {
      OperationLog.logFault(log, "counts-not-written", error);
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
