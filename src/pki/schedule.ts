import { addSeconds, wholeSeconds } from "./validity.ts";

/**
 * When an authority does what. Fixed when it is minted and never changed: published, then signs,
 * then verifies only, then leaves the bundle. `publishedFrom ≤ signsFrom < signsUntil < retiresAt`.
 */
export interface Schedule {
  readonly publishedFrom: Date;
  readonly signsFrom: Date;
  readonly signsUntil: Date;
  readonly retiresAt: Date;
}

/** What an authority does at an instant. Computed, never stored. */
export type Phase = "future" | "published" | "signing" | "verifying" | "retired";

/** The lengths that every schedule is made of, in seconds. */
export interface PhaseLengths {
  /** From writing a record until every reader has seen it. */
  readonly propagationSeconds: number;
  /** The longest life that a leaf may have. */
  readonly longestLeafSeconds: number;
  /** How long one authority may sign. */
  readonly signingSeconds: number;
}

/** The phase of a schedule at `now`; each phase begins with its first instant. */
export function phaseAt(schedule: Schedule, now: Date): Phase {
  if (now < schedule.publishedFrom) return "future";
  if (now < schedule.signsFrom) return "published";
  if (now < schedule.signsUntil) return "signing";
  if (now < schedule.retiresAt) return "verifying";
  return "retired";
}

/**
 * The schedule of the first authority of a mesh: no verifier holds an older bundle, so it signs as
 * soon as every reader of the store can see it.
 *
 * The last leaf it signs has expired, and every reader knows that it no longer signs, before its
 * root leaves the bundle.
 */
export function firstSchedule(lengths: PhaseLengths, now: Date): Schedule {
  return scheduleFrom(lengths, wholeSeconds(now), lengths.propagationSeconds);
}

function scheduleFrom(lengths: PhaseLengths, publishedFrom: Date, leadSeconds: number): Schedule {
  const signsFrom = addSeconds(publishedFrom, leadSeconds);
  const signsUntil = addSeconds(signsFrom, lengths.signingSeconds);
  const retiresAt = addSeconds(signsUntil, lengths.longestLeafSeconds + lengths.propagationSeconds);
  return { publishedFrom, signsFrom, signsUntil, retiresAt };
}
