import { addSeconds, later } from "../x509/validity.ts";
import {
  leadSeconds,
  nextSchedule,
  type PhaseLengths,
  type Schedule,
  type ScheduledAuthority,
} from "./schedule.ts";
import { type AuthorityRoot, successionOf } from "./succession.ts";
import { applyTaints, type Taint } from "./taint.ts";
import { latestBundleChange, type PublishedAuthority } from "./trust-bundle.ts";

/** The input of a plan: what the records of a store say. */
export interface RotationState {
  /** Every authority, at least one, in any order, with the schedule that it was minted with. */
  readonly authorities: readonly PublishedAuthority[];
  /** The roots that verifiers accept beside those of the authorities. */
  readonly additionalRoots: readonly PublishedAuthority[];
  readonly taints: readonly Taint[];
  readonly authorityRoot: AuthorityRoot;
}

/**
 * Why a plan mints an authority: its time has come (`due`), its time is past (`overdue`), or taints leave
 * too little time (`taint`).
 */
export type MintCause = "due" | "overdue" | "taint";

/** An act that is due. `ask` is a mint whose certificate a CA upstream has to sign. */
export type RotationStep =
  | { readonly act: "mint"; readonly schedule: Schedule; readonly cause: MintCause }
  | { readonly act: "ask"; readonly cause: MintCause }
  | { readonly act: "prune"; readonly id: string };

/**
 * The acts that are due at `now`. With the root of a person or of a CA upstream, no plan ever mints a
 * self-signed authority. The plan depends on the records and on `now` alone, so repeating it is
 * harmless.
 *
 * A successor is minted when half of its predecessor's spare time is gone. A cron that fails has the
 * other half to recover before a rotation is late.
 */
export function planRotation(
  state: RotationState,
  lengths: PhaseLengths,
  now: Date,
): readonly RotationStep[] {
  return [...planMint(state, lengths, now), ...planPruning(state, lengths, now)];
}

function planMint(state: RotationState, lengths: PhaseLengths, now: Date): RotationStep[] {
  const { authorities, taints, authorityRoot } = state;
  const effective = applyTaints(authorities, taints);
  const signsUntil = lastSignature(effective);
  const isLate = (until: Date): boolean => now > addSeconds(until, -leadSeconds(lengths));
  const lateCause = isLate(lastSignature(authorities)) ? "overdue" : "taint";
  const cause = isLate(signsUntil) ? lateCause : "due";
  switch (authorityRoot) {
    case "offline":
      return [];
    case "upstream":
      return now < successionOf(effective, lengths).due ? [] : [{ act: "ask", cause }];
    case "self":
      if (now < mintDue(signsUntil, lengths)) return [];
      return [{ act: "mint", schedule: nextSchedule(lengths, signsUntil, now), cause }];
  }
}

/** When the last of the authorities stops signing. */
export function lastSignature(authorities: readonly ScheduledAuthority[]): Date {
  const [first, ...others] = authorities.map(({ schedule }) => schedule.signsUntil);
  if (!first) throw new Error("no authority to rotate");
  return others.reduce(later, first);
}

/** When the cron mints the successor of an authority that signs until `signsUntil`. */
export function mintDue(signsUntil: Date, lengths: PhaseLengths): Date {
  const spareSeconds = (lengths.signingSeconds - leadSeconds(lengths)) / 2;
  return addSeconds(signsUntil, -leadSeconds(lengths) - Math.max(0, spareSeconds));
}

/**
 * The authorities that can be deleted.
 *
 * A retired authority stays until the bundle has changed once more and every reader knows that. Until
 * then, the instant of its retirement is the bundle's sequence number. A tainted authority stays until
 * its own schedule is over. Taints and additional roots stay for good, because a reader that is behind
 * must never see an authority without its taint.
 */
function planPruning(
  { authorities, additionalRoots, taints }: RotationState,
  { propagationSeconds }: PhaseLengths,
  now: Date,
): RotationStep[] {
  const published = applyTaints([...authorities, ...additionalRoots], taints);
  const change = latestBundleChange(published, addSeconds(now, -propagationSeconds));
  return authorities
    .filter(({ schedule }) => change && schedule.retiresAt < change)
    .map(({ id }) => ({ act: "prune", id }));
}
