import type { EventLog } from "../ca/issuance/audit-event.ts";
import { messageOf } from "../foundation/errors.ts";
import type { PushContent } from "./push-content.ts";
import {
  createPushBudget,
  type DeliverableContent,
  deliverTo,
  latest,
  type PushLimits,
  type PushOutcome,
  type PushResult,
  type RootTarget,
  rotatedByClock,
  type Timeout,
} from "./push-to-cluster.ts";

export interface PushParts {
  readonly targets: readonly RootTarget[];
  readonly content: PushContent;
  readonly limits: PushLimits;
  readonly log: EventLog;
  /** The push that comes first in each cluster, if that has both. */
  readonly after?: Pick<ClusterPush, "doneWith" | "isLate">;
  /** By default the platform's own. */
  readonly timeout?: Timeout;
}

const usualTimeout: Timeout = (milliseconds) => AbortSignal.timeout(milliseconds);

/** Delivers roots from the CA itself. It lists what clusters have, where `rampart distribute` watches. */
export class ClusterPush {
  /** The names of the clusters to which it delivers. */
  readonly clusters: readonly string[];
  readonly #parts: PushParts;
  readonly #outcomes = new Map<RootTarget, PushResult>();
  readonly #underWay = new Map<string, PromiseWithResolvers<void>>();
  readonly #late = new Map<string, (namespace: string) => boolean>();
  #unreached: ReadonlySet<RootTarget> = new Set();

  constructor(parts: PushParts) {
    this.#parts = parts;
    this.clusters = [...new Set(parts.targets.map(({ cluster }) => cluster))];
  }

  /** The last result for each cluster. */
  readonly outcomes = (): Iterable<PushOutcome> => this.#outcomes.values();

  /** Resolves when the run under way, if there is one, is done with a cluster. */
  doneWith(cluster: string): Promise<void> | undefined {
    return this.#underWay.get(cluster)?.promise;
  }

  /**
   * Whether the run under way has not brought a namespace what it had in the last run. A second push waits for that once
   * only: a trust bundle also takes a tainted root away.
   */
  isLate(cluster: string, namespace: string): boolean {
    return this.#late.get(cluster)?.(namespace) === true;
  }

  /**
   * Applies the bundle in every cluster wherever it is missing or differs. A cluster that is away, slow
   * or broken is logged, and does not delay the others. Runs may be missed, doubled or cut off: each
   * begins with what it finds in the clusters. Rejects only by a defect.
   */
  async deliver(now: Date, ending?: AbortSignal): Promise<void> {
    const { targets, content, log } = this.#parts;
    if (targets.length === 0) return;
    this.#late.clear();
    for (const { cluster } of targets) this.#underWay.set(cluster, Promise.withResolvers());
    try {
      const bundle = await content.at(now).catch(messageOf);
      if (typeof bundle !== "string") await this.#deliverAll(bundle, now, ending);
      else
        log.operation({
          event: `${content.name}-not-delivered`,
          level: "warning",
          detail: bundle,
        });
    } finally {
      for (const { resolve } of this.#underWay.values()) resolve();
    }
  }

  async #deliverAll(bundle: DeliverableContent, now: Date, ending?: AbortSignal): Promise<void> {
    const { targets, content, limits, log, after, timeout = usualTimeout } = this.#parts;
    const budget = createPushBudget(limits, timeout, ending);
    const queue = queueOf(targets, this.#unreached, now);
    const workThroughQueue = async (): Promise<void> => {
      while (!budget.isSpent()) {
        const target = queue.shift();
        if (!target) return;
        const { cluster } = target;
        await after?.doneWith(cluster);
        const waits = (namespace: string) => after?.isLate(cluster, namespace) === true;
        const outcome = await deliverTo(target, bundle, budget.forCluster(), now, waits);
        if (ending?.aborted) return;
        const before = this.#outcomes.get(target);
        logOutcome(log, content, outcome, before);
        this.#outcomes.set(target, outcome);
        const wasBehind = before?.isBehind ?? (() => true);
        this.#late.set(cluster, (each) => outcome.isBehind(each) && !wasBehind(each));
        this.#underWay.get(cluster)?.resolve();
      }
    };
    const results = await Promise.allSettled(
      Array.from({ length: limits.clustersAtOnce }, workThroughQueue),
    );
    this.#unreached = new Set(queue);
    if (queue.length > 0 && !ending?.aborted) logUnreached(log, content, queue);
    for (const each of results) if (each.status === "rejected") throw each.reason;
  }
}

/**
 * The clusters in the order of a run: first those that the last run did not reach. An isolate that a cron
 * has just woken remembers none of these, so the clock chooses the first.
 */
function queueOf(
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

/** A cluster in which nothing has changed needs no line. */
function logOutcome(
  { operation }: EventLog,
  { name }: PushContent,
  outcome: PushOutcome,
  before?: PushOutcome,
): void {
  const { cluster, sequence, namespaces, delivered, written, fault } = outcome;
  const evidence = { cluster, sequence, namespaces, delivered, written };
  if (fault !== undefined) {
    operation({ event: `${name}-not-delivered`, level: "warning", detail: fault, ...evidence });
  } else if (written > 0 || before?.sequence !== sequence || before.fault !== undefined) {
    const what = name === "roots" ? "trust bundle" : "CRLs";
    const detail = `every namespace has the ${what}`;
    operation({ event: `${name}-delivered`, level: "info", detail, ...evidence });
  }
}

const namedUnreached = 10;

function logUnreached(
  { operation }: EventLog,
  { name }: PushContent,
  queue: readonly RootTarget[],
): void {
  const names = queue.slice(0, namedUnreached).map(({ cluster }) => cluster);
  operation({
    event: `${name}-not-reached`,
    level: "warning",
    detail: `the budget of this run was spent before them, so the next begins with them: ${names.join(", ")}`,
    clusters: queue.length,
  });
}

/** Merges the outcomes of API servers with one name: a cluster that moves has two. */
export function outcomesByCluster(outcomes: Iterable<PushOutcome>): PushOutcome[] {
  return [...Map.groupBy(outcomes, ({ cluster }) => cluster).values()].flatMap(
    ([first, ...others]) => (first ? [others.reduce(together, first)] : []),
  );
}

function together(a: PushOutcome, b: PushOutcome): PushOutcome {
  return {
    cluster: a.cluster,
    sequence: Math.min(a.sequence, b.sequence),
    namespaces: a.namespaces + b.namespaces,
    delivered: a.delivered + b.delivered,
    written: a.written + b.written,
    missing: a.missing + b.missing,
    since: latest([a.since, b.since]),
    fault: a.fault ?? b.fault,
  };
}
