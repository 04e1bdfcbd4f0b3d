import { PushOutcome } from "./push-to-cluster.ts";

/** Adds up the outcomes of one cluster, which has two API servers while it moves. The sum has the lower sequence, and any fault. */
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
    since: PushOutcome.latest([a.since, b.since]),
    fault: a.fault ?? b.fault,
  };
}
