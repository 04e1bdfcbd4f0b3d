import { PushOutcome } from "./push-to-cluster.ts";

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
    since: PushOutcome.latest([a.since, b.since]),
    fault: a.fault ?? b.fault,
  };
}
