import type { OpenedStore } from "../../ca/opened-store.ts";
import type { RotationState } from "../../pki/authority/rotation.ts";
import { lastSignature, mintDue, planRotation } from "../../pki/authority/rotation.ts";
import {
  nextSchedule,
  type PhaseLengths,
  type ScheduledAuthority,
} from "../../pki/authority/schedule.ts";
import { signingAuthorityAt } from "../../pki/authority/signing-authority.ts";
import { applyTaints, createTaint, type Departure } from "../../pki/authority/taint.ts";

/** Something that will happen if nobody interferes. */
export interface ForecastEvent {
  readonly at: Date;
  /** Of the authority; of one that is yet to be minted, `next`. */
  readonly id: string;
  readonly event: "minted" | "published" | "signs" | "stops signing" | "leaves the bundle";
}

/** What a taint of one authority would do now. */
export interface TaintForecast {
  readonly id: string;
  /** Who signs in its place, and from when; `next` is one that is minted for it. */
  readonly successor: string;
  readonly successorSignsFrom: Date;
  /** Until when its root, and so what it signed, is trusted, by the departure that is chosen. */
  readonly trustedUntil: Readonly<Record<Departure, Date>>;
}

/** Everything to come up to the first signature of an authority that is not minted yet. */
export function forecastRotation(
  state: RotationState,
  lengths: PhaseLengths,
  now: Date,
): ForecastEvent[] {
  const authorities = applyTaints(state.authorities, state.taints);
  const signsUntil = lastSignature(authorities);
  const due = mintDue(signsUntil, lengths);
  const mintedAt = due > now ? due : now;
  const next = { id: "next", schedule: nextSchedule(lengths, signsUntil, mintedAt) };
  const events: ForecastEvent[] = [
    { at: mintedAt, id: "next", event: "minted" },
    ...[...authorities, next].flatMap(eventsOf),
  ];
  const roots = applyTaints(state.additionalRoots, state.taints).flatMap(
    ({ id, schedule }): ForecastEvent[] => [
      { at: schedule.publishedFrom, id, event: "published" },
      { at: schedule.retiresAt, id, event: "leaves the bundle" },
    ],
  );
  return [...events, ...roots]
    .filter(({ at }) => at >= now)
    .toSorted((a, b) => a.at.getTime() - b.at.getTime());
}

function eventsOf({ id, schedule }: ScheduledAuthority): ForecastEvent[] {
  if (schedule.signsFrom >= schedule.signsUntil) {
    return [{ at: schedule.retiresAt, id, event: "leaves the bundle" }];
  }
  return [
    { at: schedule.publishedFrom, id, event: "published" },
    { at: schedule.signsFrom, id, event: "signs" },
    { at: schedule.signsUntil, id, event: "stops signing" },
    { at: schedule.retiresAt, id, event: "leaves the bundle" },
  ];
}

/** What a taint of the authority that signs now, or of any other that is trusted, would do. */
export function forecastTaints(
  store: OpenedStore,
  lengths: PhaseLengths,
  now: Date,
): TaintForecast[] {
  const tainted = new Set(store.taints.map(({ id }) => id));
  return store.issuers
    .map(({ authority }) => authority)
    .filter(({ id, schedule }) => !tainted.has(id) && schedule.retiresAt > now)
    .map((authority) => forecastTaint(store, authority, lengths, now));
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
  const authorities = applyTaints(state.authorities, state.taints);
  const signing = signingAuthorityAt(authorities, now);
  if (signing) return { successor: signing.id, successorSignsFrom: now };
  const upcoming = authorities
    .filter(({ schedule }) => schedule.signsFrom > now && schedule.signsUntil > schedule.signsFrom)
    .map(({ id, schedule }) => ({ successor: id, successorSignsFrom: schedule.signsFrom }));
  const minted = planRotation(state, lengths, now).flatMap((step) =>
    step.act === "mint" ? [{ successor: "next", successorSignsFrom: step.schedule.signsFrom }] : [],
  );
  const [first] = [...upcoming, ...minted].toSorted(
    (a, b) => a.successorSignsFrom.getTime() - b.successorSignsFrom.getTime(),
  );
  if (!first) throw new Error("a taint that leaves nobody to sign plans nothing");
  return first;
}
