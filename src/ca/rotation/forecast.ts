import { createTaint, type Departure } from "../../pki/authority/new-taint.ts";
import type { RotationState } from "../../pki/authority/rotation.ts";
import { RotationStep, Succession } from "../../pki/authority/rotation.ts";
import {
  type PhaseLengths,
  Schedule,
  type ScheduledAuthority,
} from "../../pki/authority/schedule.ts";
import { SigningAuthority } from "../../pki/authority/signing-authority.ts";
import { Taint } from "../../pki/authority/taint.ts";
import { later } from "../../pki/x509/validity.ts";
import type { OpenedStore } from "../opened-store.ts";

/** An event to come, if no operator interferes. */
export interface ForecastEvent {
  readonly at: Date;
  /** The authority's id, or `next` for one that is not minted yet. */
  readonly id: string;
  readonly event: "minted" | "published" | "signs" | "stops signing" | "leaves bundle";
}

/** The effects that a taint of one authority would have now. */
export interface TaintForecast {
  readonly id: string;
  /**
   * The authority that signs in its place; `next` for one that the taint causes to be minted. `undefined` where
   * no other is there and another CA has to certify one.
   */
  readonly successor: string | undefined;
  readonly successorSignsFrom: Date | undefined;
  /** Until when verifiers accept its certificates, for each departure. */
  readonly trustedUntil: Readonly<Record<Departure, Date>>;
}

/** What the next rotations do. */
export const Forecast = {
  /** Every event from now up to the last one of the next authority, which is not minted yet if it is its own root. */
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

  /** The effects of a taint, for each authority that is still in the bundle and not tainted. */
  taints(store: OpenedStore, lengths: PhaseLengths, now: Date): TaintForecast[] {
    const tainted = new Set(store.taints.map(({ id }) => id));
    return store.openAuthorities
      .map(({ authority }) => authority)
      .filter(({ id, schedule }) => !tainted.has(id) && schedule.retiresAt > now)
      .map((authority) => forecastTaint(store, authority, lengths, now));
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

function forecastTaint(
  state: RotationState,
  authority: ScheduledAuthority,
  lengths: PhaseLengths,
  now: Date,
): TaintForecast {
  const { id } = authority;
  const immediately = createTaint(state, id, "immediately", lengths, now);
  const withLastLeaf = createTaint(state, id, "with-last-leaf", lengths, now);
  const afterwards = { ...state, taints: [...state.taints, immediately] };
  return {
    id,
    ...successorIn(afterwards, lengths, now),
    trustedUntil: {
      immediately: immediately.retiresAt,
      "with-last-leaf": withLastLeaf.retiresAt,
    },
  };
}

function successorIn(
  state: RotationState,
  lengths: PhaseLengths,
  now: Date,
): Pick<TaintForecast, "successor" | "successorSignsFrom"> {
  const authorities = Taint.apply(state.authorities, state.taints);
  const signing = SigningAuthority.at(authorities, now);
  if (signing) return { successor: signing.id, successorSignsFrom: now };
  const minted = RotationStep.plan(state, lengths, now).flatMap((step) =>
    step.act === "mint" ? [{ id: "next", schedule: step.schedule }] : [],
  );
  // An authority that is minted now may sign at once, and so before the next one.
  const [successor] = [SigningAuthority.nextAt(authorities, now) ?? [], minted]
    .flat()
    .toSorted((a, b) => a.schedule.signsFrom.getTime() - b.schedule.signsFrom.getTime());
  return { successor: successor?.id, successorSignsFrom: successor?.schedule.signsFrom };
}
