import { addSeconds, earlier, later, wholeSeconds } from "../x509/validity.ts";

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

/** An authority, or what is published like one, as far as time is concerned. */
export interface ScheduledAuthority {
  readonly id: string;
  readonly schedule: Schedule;
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
 * The schedule of the first authority of a mesh. No verifier holds an older bundle, so it only waits
 * for the store: one interval until every reader can see it, and one for what another run may have
 * minted that did not see it yet, so that both are in every bundle before either signs.
 */
export function firstSchedule(lengths: PhaseLengths, now: Date): Schedule {
  const publishedFrom = wholeSeconds(now);
  const signsFrom = addSeconds(publishedFrom, 2 * lengths.propagationSeconds);
  return scheduleFrom(lengths, publishedFrom, signsFrom);
}

/**
 * The schedule of an authority that follows others.
 *
 * It is published once every reader can see its record, so that all of them publish it at the same
 * instant. It signs when every leaf that was issued before then has expired, and with it the last
 * bundle that lacks the new root.
 *
 * @param othersSignUntil When the last of the others stops. Is that sooner, then the rotation is
 *   overdue, and an authority that some verifiers do not know yet is better than none.
 */
export function nextSchedule(lengths: PhaseLengths, othersSignUntil: Date, now: Date): Schedule {
  const publishedFrom = addSeconds(wholeSeconds(now), lengths.propagationSeconds);
  const inEveryBundle = addSeconds(publishedFrom, overlapSeconds(lengths));
  const atLatest = later(wholeSeconds(othersSignUntil), publishedFrom);
  return scheduleFrom(lengths, publishedFrom, earlier(inEveryBundle, atLatest));
}

/**
 * The schedule of the first authority of a signer that joins a mesh: it signs when every verifier's
 * bundle has its root, as a successor does, and nobody's end hurries it.
 */
export function joiningSchedule(lengths: PhaseLengths, now: Date): Schedule {
  return nextSchedule(lengths, new Date(8.64e15), now);
}

/**
 * The schedule of an authority that signed for a mesh before it came here: every verifier has its
 * root, so it is published and signs at once. It stops early enough for its last leaf to expire before
 * it does, or, when it is too old for that, as soon as a successor can take over.
 *
 * @param expiresAt When the first of the certificates from it up to its root expires.
 */
export function adoptedSchedule(lengths: PhaseLengths, expiresAt: Date, now: Date): Schedule {
  const signsFrom = wholeSeconds(now);
  const lastGoodLeaf = addSeconds(expiresAt, -overlapSeconds(lengths));
  const successorSigns = addSeconds(signsFrom, leadSeconds(lengths) + lengths.propagationSeconds);
  const atLatest = earlier(later(lastGoodLeaf, successorSigns), expiresAt);
  const signsUntil = earlier(addSeconds(signsFrom, lengths.signingSeconds), atLatest);
  const retiresAt = earlier(addSeconds(signsUntil, overlapSeconds(lengths)), expiresAt);
  return { publishedFrom: signsFrom, signsFrom, signsUntil, retiresAt };
}

/** From the decision to mint an authority until it can sign in good order, in seconds. */
export function leadSeconds(lengths: PhaseLengths): number {
  return lengths.propagationSeconds + overlapSeconds(lengths);
}

/** The longest life of a leaf, and the time that news of it takes to travel. */
function overlapSeconds({ longestLeafSeconds, propagationSeconds }: PhaseLengths): number {
  return longestLeafSeconds + propagationSeconds;
}

/** The last leaf has expired, wherever the clocks stand, before the root leaves the bundle. */
function scheduleFrom(lengths: PhaseLengths, publishedFrom: Date, signsFrom: Date): Schedule {
  const signsUntil = addSeconds(signsFrom, lengths.signingSeconds);
  const retiresAt = addSeconds(signsUntil, overlapSeconds(lengths));
  return { publishedFrom, signsFrom, signsUntil, retiresAt };
}
