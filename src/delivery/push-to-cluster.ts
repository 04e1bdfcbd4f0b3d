import { FetchError } from "../foundation/fetch.ts";
import type { KubernetesClient, SendRequest } from "../kubernetes/client.ts";
import type { NumberedBundle } from "../pki/authority/trust-bundle.ts";
import { applyRoots, type ClusterRoots, HeldRoots } from "./root-config-map.ts";

/** A cluster in which the CA may keep its roots. */
export interface RootTarget {
  readonly cluster: string;
  readonly server: string;
  /** The name of the ConfigMap in every namespace. */
  readonly configMap: string;
  readonly client: KubernetesClient;
}

/** A content of ConfigMaps. */
export interface DeliverableContent extends NumberedBundle {
  /** Whether other PEM is as good, so that it stays. By default, none is. */
  readonly isAsGood?: (pem: string) => Promise<boolean>;
}

/** The result of a run for one cluster. */
export interface PushOutcome {
  readonly cluster: string;
  readonly sequence: number;
  /** The numbers of namespaces that should have the bundle, that have it now, and that got it in this run. */
  readonly namespaces: number;
  readonly delivered: number;
  readonly written: number;
  /** How many have no bundle at all; the others that lack this bundle have another one. */
  readonly missing: number;
  /** Since when every namespace has the bundle; `undefined` while one lacks it, or if an annotation has no time. */
  readonly since: Date | undefined;
  /** Why not every namespace has the bundle. */
  readonly fault: string | undefined;
}

/** The outcome of a push with the state of each namespace. */
export interface PushResult extends PushOutcome {
  /**
   * Whether a namespace may still have an earlier bundle, because it did not get this one. If the bundle `isOld`, only
   * namespaces that this run did not reach are behind. A namespace that refused the bundle may refuse it for ever.
   */
  readonly isBehind: (namespace: string, isOld: boolean) => boolean;
}

/** Reports every namespace as behind, unless the bundle is old. */
export const unlessOld: PushResult["isBehind"] = (_, isOld) => !isOld;

/** After this many rounds in a row in which every write failed, a cluster waits for the next run. */
const maximumFailedRounds = 3;

/**
 * Applies the bundle wherever a cluster lacks it, within the budget. A failure is the `fault` of the result.
 *
 * @param choose Chooses the namespaces that get the bundle in this run, of those that lack it.
 */
export async function deliverTo(
  target: RootTarget,
  bundle: DeliverableContent,
  budget: ClusterBudget,
  now: Date,
  choose: (pending: readonly string[]) => Promise<readonly string[]>,
): Promise<PushResult> {
  const { cluster, configMap } = target;
  const outcome = { cluster, sequence: bundle.sequence, written: 0, missing: 0, since: undefined };
  try {
    const found = await HeldRoots.list(budget.send, configMap, (held) => stateOf(held, bundle));
    const pending = found.namespaces.filter((each) => !found.held.get(each)?.isCurrent);
    const place = { configMap, fieldOwner: "rampart-ca" } as const;
    const write = (namespace: string) =>
      applyRoots(budget.send, { ...place, namespace }, bundle, now);
    const due = await choose(pending);
    const written = await writeAll(rotatedByClock(due, now), write, budget);
    if (due.length < pending.length) written.fault ??= "a namespace waits for its CRLs";
    return { ...outcome, ...summaryOf(found, pending, written, now) };
  } catch (error) {
    if (!(error instanceof FetchError)) throw error;
    const fault = `the API server ${error.message}`;
    return { ...outcome, namespaces: 0, delivered: 0, fault, isBehind: unlessOld };
  }
}

/** Whether a namespace has the bundle, or none at all, and when its content was delivered. */
interface NamespaceState {
  readonly isCurrent: boolean;
  readonly isEmpty: boolean;
  readonly deliveredAt: Date | undefined;
}

const stateOf = async (held: HeldRoots, bundle: DeliverableContent): Promise<NamespaceState> => ({
  isCurrent: HeldRoots.hold(held, bundle) || (await bundle.isAsGood?.(held.pem)) === true,
  isEmpty: held.pem === "",
  deliveredAt: held.deliveredAt,
});

async function writeAll(
  pending: readonly string[],
  write: (namespace: string) => Promise<unknown>,
  { writesAtOnce, isSpent }: ClusterBudget,
) {
  const written = new Set<string>();
  let failedRounds = 0;
  /** The first failure: its namespace, and why. */
  let fault: string | undefined;
  let i = 0;
  while (i < pending.length && failedRounds < maximumFailedRounds && !isSpent()) {
    const round = pending.slice(i, i + writesAtOnce);
    const results = await Promise.allSettled(round.map(write));
    for (const [j, result] of results.entries()) {
      const namespace = round[j] ?? "";
      if (result.status === "fulfilled") written.add(namespace);
      else fault ??= faultOf(namespace, result.reason);
    }
    failedRounds = results.every(({ status }) => status === "rejected") ? failedRounds + 1 : 0;
    i += writesAtOnce;
  }
  // The last round counts as unreached as well if the budget has ended during it.
  const first = isSpent() ? Math.max(0, i - writesAtOnce) : pending.length;
  return { written, unreached: new Set(pending.slice(first)), fault };
}

function faultOf(namespace: string, error: unknown): string {
  if (error instanceof FetchError)
    return `for namespace ${namespace} the API server ${error.message}`;
  throw error;
}

function summaryOf(
  { namespaces, held }: ClusterRoots<NamespaceState>,
  pending: readonly string[],
  { written, unreached, fault }: Awaited<ReturnType<typeof writeAll>>,
  now: Date,
): Omit<PushResult, "cluster" | "sequence"> {
  const unwritten = pending.filter((each) => !written.has(each));
  const behind = new Set(unwritten.filter((each) => held.get(each)?.isEmpty === false));
  const delivered = namespaces.length - unwritten.length;
  const isEverywhere = delivered === namespaces.length;
  const before = PushOutcome.latest(namespaces.map((each) => held.get(each)?.deliveredAt));
  return {
    namespaces: namespaces.length,
    delivered,
    written: written.size,
    missing: unwritten.length - behind.size,
    since: isEverywhere ? (written.size > 0 ? now : before) : undefined,
    fault: isEverywhere ? undefined : (fault ?? "its budget is spent; the next run continues"),
    isBehind: (each, isOld) => behind.has(each) && (!isOld || unreached.has(each)),
  };
}

/** Compares outcomes. */
export const PushOutcome = {
  /** The last of the instants; `undefined` if one of them is, or if there are none. */
  latest(instants: readonly (Date | undefined)[]): Date | undefined {
    const times = instants.map((each) => each?.getTime() ?? Number.NaN);
    const last = times.reduce((a, b) => Math.max(a, b), 0);
    return last > 0 ? new Date(last) : undefined;
  },
};

/** The most that one run of the push may use of its platform. */
export interface PushLimits {
  readonly requests: number;
  readonly seconds: number;
  readonly clustersAtOnce: number;
  /** Writes under way to one cluster. */
  readonly writesAtOnce: number;
}

/** Creates a signal that aborts after this long, as `AbortSignal.timeout` does. */
export type Timeout = (milliseconds: number) => AbortSignal;

/** The part of a run's budget that is left for one cluster. */
interface ClusterBudget {
  readonly writesAtOnce: number;
  /** Sends to the cluster. Once the budget is spent, it refuses requests and ends those under way. */
  readonly send: SendRequest;
  readonly isSpent: () => boolean;
}

/** The share of a run's time that one cluster may use, so that a slow one leaves the rest to the others. */
const clusterShare = 1 / 4;

/**
 * Creates the budget of one push: a number of requests, and a time after which its requests are aborted.
 * @param ending Aborts them earlier.
 */
export function createPushBudget(
  { requests, seconds, writesAtOnce }: PushLimits,
  timeout: Timeout,
  ending: AbortSignal = new AbortController().signal,
) {
  const over = AbortSignal.any([ending, timeout(1000 * seconds)]);
  let left = requests;
  const isSpent = (): boolean => left <= 0 || over.aborted;
  return {
    isSpent,
    forCluster: (send: SendRequest): ClusterBudget => {
      const signal = AbortSignal.any([over, timeout(1000 * seconds * clusterShare)]);
      const isOver = (): boolean => isSpent() || signal.aborted;
      const sendWithin: SendRequest = async (request) => {
        if (isOver())
          throw new FetchError("gets no more requests in this run: its budget is spent");
        left--;
        try {
          return await send({ ...request, signal });
        } catch (error) {
          if (isRefusedByPlatform(error)) left = 0;
          throw error;
        }
      };
      return { writesAtOnce, send: sendWithin, isSpent: isOver };
    },
  };
}

/**
 * Cloudflare refuses every further fetch of a run once it has made as many as the plan allows. A Worker
 * cannot know that number beforehand: the free plan has fifty.
 */
function isRefusedByPlatform(error: unknown): boolean {
  const cause = error instanceof Error ? error.cause : undefined;
  return cause instanceof Error && /too many subrequests/i.test(cause.message);
}

/**
 * A list from one of its members on, then those before it. The milliseconds of the clock choose the first:
 * crons come at round times, and over time each member comes first.
 */
export function rotatedByClock<T>(list: readonly T[], now: Date): T[] {
  const first = now.getTime() % Math.max(list.length, 1);
  return [...list.slice(first), ...list.slice(0, first)];
}
