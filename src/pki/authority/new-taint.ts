import { addSeconds, earlier, later, wholeSeconds } from "../x509/validity.ts";
import type { Schedule, ScheduledAuthority } from "./schedule.ts";
import { Taint } from "./taint.ts";
import type { AdditionalRoot } from "./trust-bundle.ts";

/**
 * When a tainted root leaves the bundle. `immediately` makes verifiers refuse every leaf under it,
 * including those of a thief. `with-last-leaf` waits until its last leaf has expired and breaks no connection.
 */
export type Departure = "immediately" | "with-last-leaf";

/** The lengths that a departure takes into account, in seconds. */
interface DepartureLengths {
  /** The time until every reader knows the taint and no longer signs with the authority. */
  readonly propagationSeconds: number;
  readonly longestLeafSeconds: number;
}

/** Authorities with the schedules that they were minted with, and their taints. */
export interface TaintedAuthorities {
  readonly authorities: readonly ScheduledAuthority[];
  readonly taints: readonly Taint[];
}

/**
 * Creates the taint of an authority at `now`. The taint retires the authority no later than its schedule does. An
 * authority that will have signed nothing by the time every reader knows the taint retires at once, whatever the departure.
 * @throws Error for an unknown id.
 */
export function createTaint(
  { authorities, taints }: TaintedAuthorities,
  id: string,
  departure: Departure,
  lengths: DepartureLengths,
  now: Date,
): Taint {
  const own = authorities.find((each) => each.id === id);
  const effective = Taint.apply(authorities, taints).find((each) => each.id === id);
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

/**
 * The instant at which the last leaf has expired everywhere. Its lifetime may be the longest that the settings
 * allow today, or that they allowed when the authority was minted.
 */
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
 * Creates the taint that takes a root out of the bundle at an instant, or `now` if that is later. The store keeps every
 * record of what verifiers once trusted.
 */
export function createRootTaint({ id, schedule }: AdditionalRoot, at: Date, now: Date): Taint {
  const retiresAt = wholeSeconds(earlier(later(at, now), schedule.retiresAt));
  return { id, taintedAt: wholeSeconds(now), retiresAt };
}
