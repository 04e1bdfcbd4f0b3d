import type { RotationState } from "../../pki/authority/rotation.ts";
import { Succession } from "../../pki/authority/rotation.ts";
import {
  type PhaseLengths,
  Schedule,
  type ScheduledAuthority,
} from "../../pki/authority/schedule.ts";
import { Taint } from "../../pki/authority/taint.ts";
import { later } from "../../pki/x509/validity.ts";

/** A future event, if no operator interferes. */
export interface ForecastEvent {
  readonly at: Date;
  /** The authority's id, or `next` for one that is not minted yet. */
  readonly id: string;
  readonly event: "minted" | "published" | "signs" | "stops signing" | "leaves bundle";
}

/** What the next rotations do. */
export const Forecast = {
  /** All coming events of the store and, if authorities are their own roots, of the next authority, not minted yet. */
  rotation(state: RotationState, lengths: PhaseLengths, now: Date): ForecastEvent[] {
    const authorities = Taint.apply(state.authorities, state.taints);
    const events = [
      ...(state.authorityRoot === "self" ? mintEvents(authorities, lengths, now) : []),
      ...authorities.flatMap(eventsOf),
    ];
    const roots = Taint.apply(state.additionalRoots, state.taints).flatMap(
      ({ id, schedule }): ForecastEvent[] => [
        { at: schedule.publishedFrom, id, event: "published" },
        { at: schedule.retiresAt, id, event: "leaves bundle" },
      ],
    );
    return [...events, ...roots]
      .filter(({ at }) => at >= now)
      .toSorted((a, b) => a.at.getTime() - b.at.getTime());
  },
};

function mintEvents(
  authorities: readonly ScheduledAuthority[],
  lengths: PhaseLengths,
  now: Date,
): ForecastEvent[] {
  const signsUntil = Succession.lastSignature(authorities);
  const mintedAt = later(Succession.mintDue(signsUntil, lengths), now);
  const next = { id: "next", schedule: Schedule.next(lengths, signsUntil, mintedAt) };
  return [{ at: mintedAt, id: "next", event: "minted" }, ...eventsOf(next)];
}

function eventsOf({ id, schedule }: ScheduledAuthority): ForecastEvent[] {
  if (schedule.signsFrom >= schedule.signsUntil) {
    return [{ at: schedule.retiresAt, id, event: "leaves bundle" }];
  }
  return [
    { at: schedule.publishedFrom, id, event: "published" },
    { at: schedule.signsFrom, id, event: "signs" },
    { at: schedule.signsUntil, id, event: "stops signing" },
    { at: schedule.retiresAt, id, event: "leaves bundle" },
  ];
}
