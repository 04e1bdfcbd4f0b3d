import { earlier, later } from "../x509/validity.ts";
import { byPublication, type Schedule, type ScheduledAuthority } from "./schedule.ts";

/**
 * An operator's statement that an authority's key may be in other hands, or that a root is no longer to
 * be trusted. A tainted authority signs nothing, and its root leaves the bundle earlier.
 *
 * Of several taints of one authority, the one with the earliest retirement applies.
 */
export interface Taint {
  /** The id of the authority or of the additional root. */
  readonly id: string;
  /** The instant by the operator's clock, as evidence only: an authority stops signing at once, even if this lies ahead. */
  readonly taintedAt: Date;
  readonly retiresAt: Date;
}

/** Taints of authorities. */
export const Taint = {
  /**
   * Applies taints to the schedules of authorities. A taint can only shorten a schedule, so it has no effect once the
   * authority's own schedule is over.
   *
   * Where taints leave no authority to sign, the next one signs as soon as it is published. Many verifiers
   * know its root already; no verifier would know the root of a new authority.
   */
  apply<A extends ScheduledAuthority>(
    authorities: readonly A[],
    taints: readonly Taint[],
  ): readonly A[] {
    const byId = Map.groupBy(taints, ({ id }) => id);
    const untainted = authorities.filter(({ id }) => !byId.has(id));
    const gaps = authorities
      .filter(({ id }) => byId.has(id))
      .flatMap(({ schedule }) => gapsWithout(schedule, untainted));
    return authorities.map((authority) => {
      const said = byId.get(authority.id);
      const filled = gaps.filter((gap) => successorAfter(gap, untainted) === authority);
      const schedule = said ? cut(authority.schedule, said) : advance(authority.schedule, filled);
      return { ...authority, schedule };
    });
  },

  /**
   * Makes the taints of these authorities that the configuration states. A prefix taints every authority that it fits,
   * and may fit none. A configuration does not say when a taint was made, so the authority is taken as tainted since it
   * was published.
   */
  fromConfiguration(
    configured: readonly ConfiguredTaint[],
    authorities: readonly ScheduledAuthority[],
  ): readonly Taint[] {
    return authorities.flatMap(({ id, schedule }) =>
      configured
        .filter(({ idPrefix }) => id.startsWith(idPrefix))
        .map(({ rootUntil = schedule.retiresAt }) => ({
          id,
          taintedAt: schedule.publishedFrom,
          retiresAt: earlier(rootUntil, schedule.retiresAt),
        })),
    );
  },
};

/** The instants from which no authority signs because the one that should is tainted. */
function gapsWithout(lost: Schedule, untainted: readonly ScheduledAuthority[]): Date[] {
  const ends = untainted.map(({ schedule }) => schedule.signsUntil);
  return [lost.signsFrom, ...ends.filter((end) => signs(lost, end))].filter(
    (instant) => !untainted.some(({ schedule }) => signs(schedule, instant)),
  );
}

function signs({ signsFrom, signsUntil }: Schedule, at: Date): boolean {
  return signsFrom <= at && at < signsUntil;
}

/** The authority that fills a gap: the first to be published of those that would sign later. */
function successorAfter<A extends ScheduledAuthority>(
  gap: Date,
  untainted: readonly A[],
): A | undefined {
  return untainted.filter(({ schedule }) => schedule.signsFrom > gap).toSorted(byPublication)[0];
}

/** Removes the signing phase from a schedule, whatever `taintedAt` of its taints is. */
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

/** The schedule of an authority that signs from the first of these gaps on, but not before it is published. */
function advance(schedule: Schedule, gaps: readonly Date[]): Schedule {
  const signsFrom = gaps
    .map((gap) => later(gap, schedule.publishedFrom))
    .reduce(earlier, schedule.signsFrom);
  return { ...schedule, signsFrom };
}

/** A taint in the configuration. It is applied whatever the store contains, so that nobody can withhold it. */
export interface ConfiguredTaint {
  /** The id of an authority or an additional root, or the beginning of it. */
  readonly idPrefix: string;
  /** When the root leaves the bundle. With `undefined` it leaves when its schedule ends. */
  readonly rootUntil: Date | undefined;
}
