import { addSeconds, earlier, later, wholeSeconds } from "../x509/validity.ts";
import type { Schedule, ScheduledAuthority } from "./schedule.ts";

/**
 * What an operator said of an authority whose key may be in other hands, or of a root that is not to
 * be trusted any longer: it signs nothing, and its root leaves the bundle earlier. Said again, the
 * stricter word holds.
 */
export interface Taint {
  /** Of the authority or the additional root. */
  readonly id: string;
  /** By the operator's clock: evidence, on which nothing depends. */
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

/** Authorities as they were minted, and what was said of them. */
export interface TaintedAuthorities {
  readonly authorities: readonly ScheduledAuthority[];
  readonly taints: readonly Taint[];
}

/** The taint of one of the authorities, as of `now`. */
export function createTaint(
  { authorities, taints }: TaintedAuthorities,
  id: string,
  departure: Departure,
  lengths: DepartureLengths,
  now: Date,
): Taint {
  const own = authorities.find((each) => each.id === id);
  const effective = applyTaints(authorities, taints).find((each) => each.id === id);
  if (!own || !effective) throw new Error("no such authority to taint");
  const taintedAt = wholeSeconds(now);
  const everyReaderKnows = addSeconds(taintedAt, lengths.propagationSeconds);
  const hasSigned = effective.schedule.signsFrom <= everyReaderKnows;
  const retiresAt =
    departure === "with-last-leaf" && hasSigned
      ? lastLeafGone(own.schedule, lengths, everyReaderKnows)
      : taintedAt;
  return { id, taintedAt, retiresAt: earlier(retiresAt, own.schedule.retiresAt) };
}

/** Leaves live as long as today's settings allow, or as those did under which it was minted. */
function lastLeafGone(
  { signsUntil, retiresAt }: Schedule,
  { longestLeafSeconds, propagationSeconds }: DepartureLengths,
  everyReaderKnows: Date,
): Date {
  const mintedFor = (retiresAt.getTime() - signsUntil.getTime()) / 1000;
  const overlapSeconds = Math.max(mintedFor, longestLeafSeconds + propagationSeconds);
  return addSeconds(earlier(everyReaderKnows, signsUntil), overlapSeconds);
}

/**
 * The authorities with the schedules that the taints leave them. A taint only ever shortens, so that
 * it says nothing any more once an authority's own schedule is over.
 *
 * Where taints leave nobody to sign, the next authority signs as soon as it is published instead of
 * at its time: many verifiers know its root, and the alternative is one that none of them knows.
 */
export function applyTaints<A extends ScheduledAuthority>(
  authorities: readonly A[],
  taints: readonly Taint[],
): readonly A[] {
  const byId = Map.groupBy(taints, ({ id }) => id);
  const untainted = authorities.filter(({ id }) => !byId.has(id));
  const successions = authorities
    .filter(({ id }) => byId.has(id))
    .flatMap(({ schedule }) => gapsWithout(schedule, untainted))
    .flatMap((gap) => successionAfter(gap, untainted));
  return authorities.map((authority) => {
    const said = byId.get(authority.id);
    const schedule = said ? cut(authority.schedule, said) : advance(authority, successions);
    return { ...authority, schedule };
  });
}

/** The instants from which nobody signs because one that should is tainted. */
function gapsWithout(lost: Schedule, untainted: readonly ScheduledAuthority[]): Date[] {
  const ends = untainted.map(({ schedule }) => schedule.signsUntil);
  return [lost.signsFrom, ...ends.filter((end) => signs(lost, end))].filter(
    (instant) => !untainted.some(({ schedule }) => signs(schedule, instant)),
  );
}

function signs({ signsFrom, signsUntil }: Schedule, at: Date): boolean {
  return signsFrom <= at && at < signsUntil;
}

/** Who takes over where nobody signs, and when. */
interface Succession {
  readonly id: string;
  readonly signsFrom: Date;
}

function successionAfter(gap: Date, untainted: readonly ScheduledAuthority[]): Succession[] {
  const [first] = untainted
    .filter(({ schedule }) => schedule.signsFrom > gap)
    .toSorted(
      (a, b) =>
        a.schedule.publishedFrom.getTime() - b.schedule.publishedFrom.getTime() ||
        a.id.localeCompare(b.id),
    );
  return first ? [{ id: first.id, signsFrom: later(gap, first.schedule.publishedFrom) }] : [];
}

/** It signs at no instant, whatever the operator's clock said. */
function cut(schedule: Schedule, said: readonly Taint[]): Schedule {
  const retiresAt = said.reduce((at, taint) => earlier(at, taint.retiresAt), schedule.retiresAt);
  const taintedAt = said.reduce((at, taint) => earlier(at, taint.taintedAt), schedule.signsUntil);
  const signsFrom = earlier(schedule.signsFrom, taintedAt);
  return {
    publishedFrom: earlier(schedule.publishedFrom, retiresAt),
    signsFrom,
    signsUntil: signsFrom,
    retiresAt,
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
