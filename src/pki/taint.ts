import type { Schedule, ScheduledAuthority } from "./schedule.ts";
import { addSeconds, wholeSeconds } from "./validity.ts";

/**
 * What an operator said of an authority whose key may be in other hands, or of a root that is not to
 * be trusted any longer: it signs nothing from now on, and its root leaves the bundle earlier.
 */
export interface Taint {
  /** Of the authority or the additional root. */
  readonly id: string;
  readonly taintedAt: Date;
  readonly retiresAt: Date;
}

/**
 * When a tainted root leaves the bundle: at once, which refuses what it signed and what a thief signs
 * with it, or once the last leaf that it signed has expired, which breaks no connection.
 */
export type Departure = "immediately" | "with-last-leaf";

/** What a departure takes into account, in seconds. */
export interface DepartureLengths {
  /** Until every reader knows of the taint, and signs nothing more. */
  readonly propagationSeconds: number;
  readonly longestLeafSeconds: number;
}

/**
 * The taint of an authority, as of `now`.
 *
 * @param authority With the schedule that earlier taints leave it; tainted again, it can only leave
 *   earlier.
 */
export function createTaint(
  { id, schedule }: ScheduledAuthority,
  departure: Departure,
  { propagationSeconds, longestLeafSeconds }: DepartureLengths,
  now: Date,
): Taint {
  const taintedAt = earlier(wholeSeconds(now), schedule.signsUntil);
  const hasSigned = schedule.signsFrom <= addSeconds(now, propagationSeconds);
  if (departure === "immediately" || !hasSigned) {
    return { id, taintedAt, retiresAt: earlier(wholeSeconds(now), schedule.retiresAt) };
  }
  const stopped = earlier(addSeconds(taintedAt, propagationSeconds), schedule.signsUntil);
  const lastLeafGone = addSeconds(stopped, longestLeafSeconds + propagationSeconds);
  return { id, taintedAt, retiresAt: earlier(lastLeafGone, schedule.retiresAt) };
}

/**
 * The authorities with the schedules that the taints leave them. A taint only ever shortens, so that
 * it says nothing any more once an authority's own schedule is over.
 *
 * Where a taint leaves nobody to sign, the next authority signs as soon as it is published instead of
 * at its time: many verifiers know its root, and the alternative is one that none of them knows.
 */
export function applyTaints<A extends ScheduledAuthority>(
  authorities: readonly A[],
  taints: readonly Taint[],
): readonly A[] {
  const byId = new Map(taints.map((taint) => [taint.id, taint]));
  const untainted = authorities.filter(({ id }) => !byId.has(id));
  const successions = authorities
    .flatMap(({ id, schedule }) => interruption(schedule, byId.get(id)))
    .flatMap((gap) => successionAfter(gap, untainted));
  return authorities.map((authority) => {
    const { id, schedule } = authority;
    const taint = byId.get(id);
    return {
      ...authority,
      schedule: taint ? cut(schedule, taint) : advance(authority, successions),
    };
  });
}

/** Who takes over where a taint leaves nobody to sign, and when. */
interface Succession {
  readonly id: string;
  readonly signsFrom: Date;
}

function successionAfter(gap: Date, untainted: readonly ScheduledAuthority[]): Succession[] {
  if (untainted.some(({ schedule }) => signs(schedule, gap))) return [];
  return untainted
    .filter(({ schedule }) => schedule.signsFrom > gap)
    .map(({ id, schedule }) => ({ id, signsFrom: later(gap, schedule.publishedFrom) }))
    .toSorted((a, b) => a.signsFrom.getTime() - b.signsFrom.getTime() || a.id.localeCompare(b.id))
    .slice(0, 1);
}

/** The instant at which a taint takes the place of a schedule's own end of signing, if it does. */
function interruption(schedule: Schedule, taint: Taint | undefined): Date[] {
  return taint && signs(schedule, taint.taintedAt) ? [taint.taintedAt] : [];
}

function signs({ signsFrom, signsUntil }: Schedule, at: Date): boolean {
  return signsFrom <= at && at < signsUntil;
}

function cut(schedule: Schedule, { taintedAt, retiresAt }: Taint): Schedule {
  return {
    publishedFrom: earlier(schedule.publishedFrom, retiresAt),
    signsFrom: earlier(schedule.signsFrom, taintedAt),
    signsUntil: earlier(schedule.signsUntil, taintedAt),
    retiresAt: earlier(schedule.retiresAt, retiresAt),
  };
}

function advance(
  { id, schedule }: ScheduledAuthority,
  successions: readonly Succession[],
): Schedule {
  const signsFrom = successions
    .filter((succession) => succession.id === id)
    .reduce((from, succession) => earlier(from, succession.signsFrom), schedule.signsFrom);
  return { ...schedule, signsFrom };
}

function earlier(a: Date, b: Date): Date {
  return a < b ? a : b;
}

function later(a: Date, b: Date): Date {
  return a < b ? b : a;
}
