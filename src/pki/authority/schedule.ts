import { addSeconds, earlier, later, wholeSeconds } from "../x509/validity.ts";

/**
 * The phases of an authority, fixed when it is minted: the bundle has its root, it signs, it only
 * verifies, its root leaves the bundle. `publishedFrom ≤ signsFrom < signsUntil < retiresAt`.
 */
export interface Schedule {
  readonly publishedFrom: Date;
  readonly signsFrom: Date;
  readonly signsUntil: Date;
  readonly retiresAt: Date;
}

/** An authority or an additional root, with its schedule. */
export interface ScheduledAuthority {
  readonly id: string;
  readonly schedule: Schedule;
}

/** The phases of an authority in their order: the words of the CLI, the console, the pages and JSON. */
export const phases = ["future", "published", "signing", "verifying", "retired"] as const;

/** The phase of an authority at an instant. It is computed from the schedule, never stored. */
export type Phase = (typeof phases)[number];

/** The lengths from which every schedule is computed, in seconds. */
export interface PhaseLengths {
  /** The time from writing a record until every reader has seen it. */
  readonly propagationSeconds: number;
  /** The longest validity that a leaf may have. */
  readonly longestLeafSeconds: number;
  /** The time for which one authority signs. */
  readonly signingSeconds: number;
}

/** Computes when authorities are published, sign and retire. */
export const Schedule = {
  /** The phase of a schedule at `now`; each phase begins with its first instant. */
  phaseAt(schedule: Schedule, now: Date): Phase {
    if (now < schedule.publishedFrom) return "future";
    if (now < schedule.signsFrom) return "published";
    if (now < schedule.signsUntil) return "signing";
    if (now < schedule.retiresAt) return "verifying";
    return "retired";
  },

  /**
   * The schedule of the first authority of a mesh. No verifier has an older bundle, so the authority
   * waits only for readers of the store: two propagation intervals.
   *
   * After one, every reader sees its record. Until then another run of the cron may mint a second
   * authority; after the other interval, both are in every bundle before either signs.
   */
  first(lengths: PhaseLengths, now: Date): Schedule {
    const publishedFrom = wholeSeconds(now);
    const signsFrom = addSeconds(publishedFrom, 2 * lengths.propagationSeconds);
    return scheduleFrom(lengths, publishedFrom, signsFrom);
  },

  /**
   * The schedule of an authority that follows others.
   *
   * Every reader can see its record before it is published, so all readers publish it at the same
   * instant. It signs when every leaf from before its publication has expired, because such a leaf
   * came with the last bundle without its root.
   *
   * @param othersSignUntil When the last of the others stops signing. If that is before those leaves have expired, it
   *   signs then: an authority that some verifiers do not know yet is better than none.
   */
  next(lengths: PhaseLengths, othersSignUntil: Date, now: Date): Schedule {
    const publishedFrom = addSeconds(wholeSeconds(now), lengths.propagationSeconds);
    const inEveryBundle = addSeconds(publishedFrom, overlapSeconds(lengths));
    const atLatest = later(wholeSeconds(othersSignUntil), publishedFrom);
    return scheduleFrom(lengths, publishedFrom, earlier(inEveryBundle, atLatest));
  },

  /**
   * The schedule of the first authority of a signer that joins a mesh. Like a successor, it signs when
   * every verifier's bundle has its root. No predecessor's end comes before that.
   */
  joining(lengths: PhaseLengths, now: Date): Schedule {
    return Schedule.next(lengths, new Date(8.64e15), now);
  },

  /**
   * The schedule of an intermediate that another CA has certified. It is published when every reader can see its
   * record, and signs when every live bundle has its root, or when the others stop if that is sooner. The first authority
   * of a mesh is published at once, and signs as in {@link Schedule.first}.
   *
   * It stops signing early enough for its last leaf to expire before its path does. An empty signing phase means that its
   * certificate lives too short a time for these lengths.
   */
  installed(
    lengths: PhaseLengths,
    { expiresAt, rootSince, othersSignUntil }: Installation,
    now: Date,
  ): Schedule {
    const visible = addSeconds(wholeSeconds(now), lengths.propagationSeconds);
    const signsUntil = addSeconds(expiresAt, -overlapSeconds(lengths));
    if (!othersSignUntil) {
      const signsFrom = addSeconds(visible, lengths.propagationSeconds);
      return { publishedFrom: wholeSeconds(now), signsFrom, signsUntil, retiresAt: expiresAt };
    }
    const known = rootSince ? earlier(rootSince, visible) : visible;
    const inEveryBundle = later(visible, addSeconds(known, overlapSeconds(lengths)));
    const atLatest = later(wholeSeconds(othersSignUntil), visible);
    const signsFrom = earlier(inEveryBundle, atLatest);
    return { publishedFrom: visible, signsFrom, signsUntil, retiresAt: expiresAt };
  },

  /** The time from minting an authority until every verifier knows its root and it may sign, in seconds. */
  leadSeconds(lengths: PhaseLengths): number {
    return lengths.propagationSeconds + overlapSeconds(lengths);
  },
};

/** What the schedule of an installed intermediate depends on. */
interface Installation {
  /** When the first certificate on the path from the authority to its root expires. */
  readonly expiresAt: Date;
  /** The instant from which the bundle has its root without a gap; `undefined` if the bundle lacks it. */
  readonly rootSince: Date | undefined;
  /** When the last other authority stops signing; `undefined` for the first authority of a mesh. */
  readonly othersSignUntil: Date | undefined;
}

/** Compares by an instant of the schedules, then by id, for sorting that is the same in every process. */
export const inOrderOf =
  (phase: keyof Schedule) =>
  (a: ScheduledAuthority, b: ScheduledAuthority): number =>
    a.schedule[phase].getTime() - b.schedule[phase].getTime() || a.id.localeCompare(b.id);

/** Compares by publication. */
export const byPublication = inOrderOf("publishedFrom");

/** The longest validity of a leaf and one propagation interval. */
export function overlapSeconds({ longestLeafSeconds, propagationSeconds }: PhaseLengths): number {
  return longestLeafSeconds + propagationSeconds;
}

/**
 * A schedule of the usual lengths. The root leaves a propagation interval after the last leaf has expired, because clocks
 * differ.
 */
function scheduleFrom(lengths: PhaseLengths, publishedFrom: Date, signsFrom: Date): Schedule {
  const signsUntil = addSeconds(signsFrom, lengths.signingSeconds);
  const retiresAt = addSeconds(signsUntil, overlapSeconds(lengths));
  return { publishedFrom, signsFrom, signsUntil, retiresAt };
}
