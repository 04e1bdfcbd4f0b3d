import type { EventLog } from "../ca/audit-event.ts";
import type { Authorities } from "../ca/authorities.ts";
import { messageOf } from "../foundation/errors.ts";
import type { NumberedBundle } from "../pki/authority/trust-bundle.ts";
import { createPushBudget, type PushLimits, type Timeout } from "./push-budget.ts";
import { deliverTo, type PushOutcome, type RootTarget } from "./push-to-cluster.ts";
import { rotatedByClock } from "./round-robin.ts";

/** The CA's own `rampart distribute`, without a process in the cluster: by one look at a time. */
export interface RootPush {
  /**
   * Looks at every cluster, and applies what is missing or differs. A cluster that is away, slow or
   * wrong is logged, and keeps no other from its roots. Runs may be missed, doubled or cut off: what is
   * done is what a look finds, so the next one goes on from there. Rejects only by a defect.
   */
  readonly deliver: (now: Date, ending?: AbortSignal) => Promise<void>;
  /** What became of each cluster when it was last looked at. */
  readonly outcomes: () => Iterable<PushOutcome>;
}

/** What a push is made of. */
export interface PushParts {
  readonly targets: readonly RootTarget[];
  readonly authorities: Authorities;
  readonly limits: PushLimits;
  readonly log: EventLog;
  /** The platform's own, unless a test has another. */
  readonly timeout?: Timeout;
}

export function createRootPush({
  targets,
  authorities,
  limits,
  log,
  timeout = (milliseconds) => AbortSignal.timeout(milliseconds),
}: PushParts): RootPush {
  const outcomes = new Map<RootTarget, PushOutcome>();
  let unreached: ReadonlySet<RootTarget> = new Set();

  async function deliverAll(bundle: NumberedBundle, now: Date, ending?: AbortSignal) {
    const allowance = createPushBudget(limits, timeout, ending);
    const queue = inTurn(targets, unreached, now);
    const workOff = async (): Promise<void> => {
      while (!allowance.isSpent()) {
        const target = queue.shift();
        if (!target) return;
        const outcome = await deliverTo(target, bundle, allowance.forOne(), now);
        if (ending?.aborted) return;
        tell(log, outcome, outcomes.get(target));
        outcomes.set(target, outcome);
      }
    };
    const lanes = await Promise.allSettled(Array.from({ length: limits.clustersAtOnce }, workOff));
    unreached = new Set(queue);
    if (queue.length > 0 && !ending?.aborted) tellUnreached(log, queue);
    for (const lane of lanes) if (lane.status === "rejected") throw lane.reason;
  }

  return {
    deliver: async (now, ending) => {
      if (targets.length === 0) return;
      const bundle = await bundleAt(authorities, now).catch(messageOf);
      if (typeof bundle !== "string") await deliverAll(bundle, now, ending);
      else log.operation({ event: "roots-not-delivered", level: "warning", detail: bundle });
    },
    outcomes: () => outcomes.values(),
  };
}

async function bundleAt(authorities: Authorities, now: Date): Promise<NumberedBundle> {
  const { trustBundle, sequence } = await authorities.at(now);
  // An empty one would tell everybody to trust nobody.
  if (trustBundle.roots.length === 0) throw new Error("there is no root to deliver");
  return { pem: trustBundle.pem, sequence };
}

/**
 * Those that the last run did not reach, then the others. Where nothing is remembered, because a cron
 * may wake another isolate each time, chance decides who begins.
 */
function inTurn(
  targets: readonly RootTarget[],
  unreached: ReadonlySet<RootTarget>,
  now: Date,
): RootTarget[] {
  const others = rotatedByClock(
    targets.filter((each) => !unreached.has(each)),
    now,
  );
  return [...targets.filter((each) => unreached.has(each)), ...others];
}

/** That all is as it was needs no line. */
function tell({ operation }: EventLog, outcome: PushOutcome, before?: PushOutcome): void {
  const { cluster, sequence, namespaces, delivered, written, fault } = outcome;
  const evidence = { cluster, sequence, namespaces, delivered, written };
  if (fault !== undefined) {
    operation({ event: "roots-not-delivered", level: "warning", detail: fault, ...evidence });
  } else if (written > 0 || before?.sequence !== sequence || before.fault !== undefined) {
    const detail = "every namespace has the trust bundle";
    operation({ event: "roots-delivered", level: "info", detail, ...evidence });
  }
}

const namedUnreached = 10;

function tellUnreached({ operation }: EventLog, queue: readonly RootTarget[]): void {
  const names = queue.slice(0, namedUnreached).map(({ cluster }) => cluster);
  operation({
    event: "roots-not-reached",
    level: "warning",
    detail: `this run had no time or requests left for them; the next begins with them: ${names.join(", ")}`,
    clusters: queue.length,
  });
}
