import { FetchError } from "../foundation/json-fetch.ts";
import type { KubernetesClient } from "../kubernetes/client.ts";
import { type ClusterRoots, listRoots } from "../kubernetes/cluster-roots.ts";
import { type HeldRoots, holds } from "../kubernetes/root-config-map.ts";
import type { NumberedBundle } from "../pki/authority/trust-bundle.ts";
import { applyRoots } from "./apply-roots.ts";
import type { ClusterBudget } from "./push-budget.ts";
import { rotatedByClock } from "./round-robin.ts";

/** A cluster that has given the CA leave to keep its roots there. */
export interface RootTarget {
  readonly cluster: string;
  /** The name of the ConfigMap in every namespace. */
  readonly configMap: string;
  readonly client: KubernetesClient;
}

/** What became of a cluster in a run. */
export interface PushOutcome {
  readonly cluster: string;
  /** Of the bundle that was to be delivered. */
  readonly sequence: number;
  /** That should have it, and that have it now. */
  readonly namespaces: number;
  readonly delivered: number;
  readonly written: number;
  /** Since when it is everywhere; nothing while it is not, or where a writer has noted no time. */
  readonly since: Date | undefined;
  /** Why it is not everywhere. */
  readonly fault: string | undefined;
}

/** Not `rampart-distribute`, so that a cluster shows which of the two has written. */
const fieldOwner = "rampart-ca" as const;

/** After so many rounds of writes that all failed, in a row, a cluster is left until the next run. */
const hopelessRounds = 3;

/** Brings one cluster up to date as far as it lets itself, and the allowance goes. Rejects only by a defect. */
export async function deliverTo(
  target: RootTarget,
  bundle: NumberedBundle,
  allowance: ClusterBudget,
  now: Date,
): Promise<PushOutcome> {
  const send = allowance.limited(target.client.send);
  const { cluster, configMap } = target;
  const outcome = { cluster, sequence: bundle.sequence, written: 0, since: undefined };
  try {
    const found = await listRoots(send, configMap, (held) => noteOf(held, bundle));
    const pending = found.namespaces.filter((each) => !found.held.get(each)?.isCurrent);
    const place = { configMap, fieldOwner };
    const write = (namespace: string) => applyRoots(send, { ...place, namespace }, bundle, now);
    const written = await writeAll(rotatedByClock(pending, now), write, allowance);
    return { ...outcome, ...summaryOf(found, pending, written, now) };
  } catch (error) {
    if (!(error instanceof FetchError)) throw error;
    return { ...outcome, namespaces: 0, delivered: 0, fault: `the API server ${error.message}` };
  }
}

interface Note {
  readonly isCurrent: boolean;
  readonly deliveredAt: Date | undefined;
}

const noteOf = (held: HeldRoots, bundle: NumberedBundle): Note => ({
  isCurrent: holds(held, bundle),
  deliveredAt: held.deliveredAt,
});

/** What became of the writes. */
interface Writes {
  readonly written: number;
  /** The first one's namespace and reason. */
  readonly fault: string | undefined;
}

async function writeAll(
  pending: readonly string[],
  write: (namespace: string) => Promise<unknown>,
  { writesAtOnce, isSpent }: ClusterBudget,
): Promise<Writes> {
  let [written, hopeless] = [0, 0];
  let fault: string | undefined;
  for (
    let i = 0;
    i < pending.length && hopeless < hopelessRounds && !isSpent();
    i += writesAtOnce
  ) {
    const round = pending.slice(i, i + writesAtOnce);
    const results = await Promise.allSettled(round.map(write));
    for (const [j, result] of results.entries()) {
      if (result.status === "fulfilled") written++;
      else fault ??= faultOf(round[j] ?? "", result.reason);
    }
    hopeless = results.every(({ status }) => status === "rejected") ? hopeless + 1 : 0;
  }
  return { written, fault };
}

function faultOf(namespace: string, error: unknown): string {
  if (error instanceof FetchError)
    return `for namespace ${namespace} the API server ${error.message}`;
  throw error;
}

function summaryOf(
  { namespaces, held }: ClusterRoots<Note>,
  pending: readonly string[],
  { written, fault }: Writes,
  now: Date,
): Omit<PushOutcome, "cluster" | "sequence"> {
  const delivered = namespaces.length - pending.length + written;
  const isEverywhere = delivered === namespaces.length;
  const left = "no time or requests are left in this run: the next goes on from here";
  const before = latest(namespaces.map((each) => held.get(each)?.deliveredAt));
  return {
    namespaces: namespaces.length,
    delivered,
    written,
    since: isEverywhere ? (written > 0 ? now : before) : undefined,
    fault: isEverywhere ? undefined : (fault ?? left),
  };
}

/** The last of the instants; nothing where one of them is not known. */
export function latest(instants: readonly (Date | undefined)[]): Date | undefined {
  const times = instants.map((each) => each?.getTime() ?? Number.NaN);
  const last = times.reduce((a, b) => Math.max(a, b), 0);
  return Number.isNaN(last) || last === 0 ? undefined : new Date(last);
}
