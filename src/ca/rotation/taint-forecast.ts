import { createTaint, type Departure } from "../../pki/authority/new-taint.ts";
import { type RotationState, RotationStep } from "../../pki/authority/rotation.ts";
import type { PhaseLengths, ScheduledAuthority } from "../../pki/authority/schedule.ts";
import { SigningAuthority } from "../../pki/authority/signing-authority.ts";
import { Taint } from "../../pki/authority/taint.ts";
import type { OpenedStore } from "../opened-store.ts";

/** The effects that a taint of one authority would have now. */
export interface TaintForecast {
  readonly id: string;
  /**
   * The authority that signs in its place; `next` for one that the taint causes to be minted. `undefined` if there is
   * none, and only another CA can certify one.
   */
  readonly successor: string | undefined;
  readonly successorSignsFrom: Date | undefined;
  /** Until when verifiers accept its certificates, for each departure. */
  readonly trustedUntil: Readonly<Record<Departure, Date>>;
}

/** Forecasts the effects of taints. */
export const TaintForecast = {
  /** The effects of a taint, for each authority that is still in the bundle and not tainted. */
  of(store: OpenedStore, lengths: PhaseLengths, now: Date): readonly TaintForecast[] {
    const tainted = new Set(store.taints.map(({ id }) => id));
    return store.openAuthorities
      .map(({ authority }) => authority)
      .filter(({ id, schedule }) => !tainted.has(id) && schedule.retiresAt > now)
      .map((authority) => forecastTaint(store, authority, lengths, now));
  },
};

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
  // An authority that is minted now may sign at once, and so earlier than the next authority of the store.
  const [successor] = [SigningAuthority.nextAt(authorities, now) ?? [], minted]
    .flat()
    .toSorted((a, b) => a.schedule.signsFrom.getTime() - b.schedule.signsFrom.getTime());
  return { successor: successor?.id, successorSignsFrom: successor?.schedule.signsFrom };
}
