import { earlier } from "../x509/validity.ts";
import type { ScheduledAuthority } from "./schedule.ts";
import type { Taint } from "./taint.ts";

/** A taint in the configuration. It counts whatever the store says, so nobody can withhold it. */
export interface ConfiguredTaint {
  /** The id of an authority or an additional root, or the beginning of it. */
  readonly idPrefix: string;
  /** When the root leaves the bundle. `undefined` leaves it there for as long as its schedule says. */
  readonly rootUntil: Date | undefined;
}

/**
 * The taints of these authorities that the configuration states. A configuration does not say when its
 * taint was made, so the authority counts as tainted since it was published.
 */
export function taintsOf(
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
}
