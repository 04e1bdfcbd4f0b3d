import type { EventLog } from "../ca/issuance/event-log.ts";
import { messageOf } from "../foundation/errors.ts";
import type { PushContent } from "./push-content.ts";
import {
  createPushBudget,
  type DeliverableContent,
  deliverTo,
  type PushLimits,
  type PushOutcome,
  type PushResult,
  type RootTarget,
  rotatedByClock,
  type Timeout,
  unlessOld,
} from "./push-to-cluster.ts";

/** What a push delivers, where, and within which limits. */
export interface PushParts {
  readonly targets: readonly RootTarget[];
  readonly content: PushContent;
  readonly limits: PushLimits;
  readonly log: EventLog;
  /** The push that goes first at each API server to which both deliver. */
  readonly after?: Pick<ClusterPush, "attempts">;
  /** Makes a signal that aborts after a time; by default the platform's. */
  readonly timeout?: Timeout;
}

/** What a run has done at an API server. */
interface Attempt {
  readonly done: PromiseWithResolvers<void>;
  isBehind: PushResult["isBehind"];
  /** Tries the server again; set if this run got no list from it. */
  again?: () => Promise<void>;
}

/**
 * How long a new bundle waits for its CRLs in a namespace. A bundle may also remove a tainted root, and must not wait
 * longer. The wait is counted from the bundle's sequence number, which is the time of its last change, because an
 * isolate of a cron remembers no earlier run.
 */
const waitMilliseconds = 90_000;

const usualTimeout: Timeout = (milliseconds) => AbortSignal.timeout(milliseconds);

/** How far a push has come, as this process knows it. */
export interface PushReport {
  /** The names of the clusters to which it delivers. */
  readonly clusters: readonly string[];
  /** The last result for each cluster. */
  readonly outcomes: () => Iterable<PushOutcome>;
}

/** Delivers roots or CRLs from the CA itself. It lists what clusters have, whereas `rampart distribute` watches. */
export class ClusterPush implements PushReport {
  readonly clusters: readonly string[];
  readonly #parts: PushParts;
  readonly #outcomes = new Map<RootTarget, PushOutcome>();
  /** The attempts of the run under way, or of the last one, by the URL of the API server. */
  readonly attempts = new Map<string, Attempt>();
  #unreached: ReadonlySet<RootTarget> = new Set();

  constructor(parts: PushParts) {
    this.#parts = parts;
    this.clusters = [...new Set(parts.targets.map(({ cluster }) => cluster))];
  }

  readonly outcomes = (): Iterable<PushOutcome> => this.#outcomes.values();

  /**
   * Applies the bundle in every cluster wherever it is missing or differs, within {@link PushLimits}. Logs clusters
   * that fail or are not reached, and why there is nothing to deliver. Runs may be missed, doubled or cut off: each
   * begins with what it finds in the clusters. Rejects only by a defect.
   */
  async deliver(now: Date, ending?: AbortSignal): Promise<void> {
    const { targets, content, log } = this.#parts;
    if (targets.length === 0) return;
    for (const { server } of targets)
      this.attempts.set(server, { done: Promise.withResolvers(), isBehind: unlessOld });
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
      for (const { done } of this.attempts.values()) done.resolve();
    }
  }

  async #deliverAll(bundle: DeliverableContent, now: Date, ending?: AbortSignal): Promise<void> {
    const { targets, limits, after, timeout = usualTimeout } = this.#parts;
    const budget = createPushBudget(limits, timeout, ending);
    const queue = queueOf(targets, this.#unreached, now);
    const workThroughQueue = async (): Promise<void> => {
      while (!budget.isSpent()) {
        const target = queue.shift();
        if (!target) return;
        const { server } = target;
        const isOld = now.getTime() - bundle.sequence >= waitMilliseconds;
        const [attempt, former] = [this.attempts.get(server), after?.attempts.get(server)];
        const choose = async (pending: readonly string[]): Promise<readonly string[]> => {
          if (pending.length > 0) await former?.again?.();
          return pending.filter((each) => !former?.isBehind(each, isOld));
        };
        const bring = async (): Promise<void> => {
          const outcome = await deliverTo(
            target,
            bundle,
            budget.forCluster(target.client.send),
            now,
            choose,
          );
          if (ending?.aborted || !attempt) return;
          this.#log(outcome, this.#outcomes.get(target));
          this.#outcomes.set(target, outcome);
          attempt.isBehind = outcome.isBehind;
          if (outcome.namespaces === 0) attempt.again = bring;
        };
        await former?.done.promise;
        await bring();
        attempt?.done.resolve();
      }
    };
    const results = await Promise.allSettled(
      Array.from({ length: limits.clustersAtOnce }, workThroughQueue),
    );
    this.#unreached = new Set(queue);
    if (queue.length > 0 && !ending?.aborted) this.#logUnreached(queue);
    for (const each of results) if (each.status === "rejected") throw each.reason;
  }

  /** Logs an outcome, unless nothing has changed in the cluster. */
  #log(outcome: PushOutcome, before: PushOutcome | undefined): void {
    const { name } = this.#parts.content;
    const { operation } = this.#parts.log;
    const { cluster, sequence, namespaces, delivered, written, fault } = outcome;
    const evidence = { cluster, sequence, namespaces, delivered, written };
    if (fault !== undefined) {
      operation({ event: `${name}-not-delivered`, level: "warning", detail: fault, ...evidence });
    } else if (written > 0 || before?.sequence !== sequence || before.fault !== undefined) {
      const detail = `every namespace has the ${name === "roots" ? "trust bundle" : "CRLs"}`;
      operation({ event: `${name}-delivered`, level: "info", detail, ...evidence });
    }
  }

  #logUnreached(queue: readonly RootTarget[]): void {
    const { name } = this.#parts.content;
    const names = queue.slice(0, namedUnreached).map(({ cluster }) => cluster);
    this.#parts.log.operation({
      event: `${name}-not-reached`,
      level: "warning",
      detail: `its budget is spent; the next run begins with them: ${names.join(", ")}`,
      clusters: queue.length,
    });
  }
}

const namedUnreached = 10;

/**
 * Orders the clusters for a run: first those that the last run did not reach. An isolate that a cron has just started
 * remembers no last run, so the clock chooses the first cluster.
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
