import { addSeconds, later } from "../x509/validity.ts";
import {
  leadSeconds,
  nextSchedule,
  type PhaseLengths,
  type Schedule,
  type ScheduledAuthority,
} from "./schedule.ts";
import { applyTaints, type Taint } from "./taint.ts";
import { latestBundleChange, type PublishedAuthority } from "./trust-bundle.ts";

/** All that a plan is made from: what the records of a store say. */
export interface RotationState {
  /** Every authority, in any order, with the schedule that it was minted with; at least one. */
  readonly authorities: readonly PublishedAuthority[];
  /** What verifiers accept beside them. */
  readonly additionalRoots: readonly PublishedAuthority[];
  readonly taints: readonly Taint[];
}

/** Why an authority is minted now: its time has come; the cron ran too late; nothing else may sign. */
export type MintCause = "due" | "overdue" | "taint";

/** Something that is due. */
export type RotationStep =
  | { readonly act: "mint"; readonly schedule: Schedule; readonly cause: MintCause }
  | { readonly act: "prune"; readonly id: string };

/**
 * What is due at `now`, decided from the records and from nothing else: the same records and the same
 * instant give the same plan, however often it is made.
 *
 * A successor is minted when half of the time is gone that its predecessor can spare: a cron that
 * fails has as long again to recover before anything is late.
 */
export function planRotation(
  state: RotationState,
  lengths: PhaseLengths,
  now: Date,
): readonly RotationStep[] {
  return [...planMint(state, lengths, now), ...planPruning(state, lengths, now)];
}

function planMint(
  { authorities, taints }: RotationState,
  lengths: PhaseLengths,
  now: Date,
): RotationStep[] {
  const signsUntil = lastSignature(applyTaints(authorities, taints));
  if (now < mintDue(signsUntil, lengths)) return [];
  const schedule = nextSchedule(lengths, signsUntil, now);
  const isLate = (until: Date): boolean => now > addSeconds(until, -leadSeconds(lengths));
  if (!isLate(signsUntil)) return [{ act: "mint", schedule, cause: "due" }];
  const cause = isLate(lastSignature(authorities)) ? "overdue" : "taint";
  return [{ act: "mint", schedule, cause }];
}

/** When the last of the authorities stops signing. */
export function lastSignature(authorities: readonly ScheduledAuthority[]): Date {
  const [first, ...others] = authorities.map(({ schedule }) => schedule.signsUntil);
  if (!first) throw new Error("no authority to rotate");
  return others.reduce(later, first);
}

/** When the successor of an authority that signs until then is to be minted. */
export function mintDue(signsUntil: Date, lengths: PhaseLengths): Date {
  const spareSeconds = (lengths.signingSeconds - leadSeconds(lengths)) / 2;
  return addSeconds(signsUntil, -leadSeconds(lengths) - Math.max(0, spareSeconds));
}

/**
 * The authorities that nothing needs any more. A retired one is kept until the bundle has changed once
 * more, and every reader knows that: until then, that instant is the bundle's sequence number. And one that is tainted is kept
 * until its own schedule is over. What the operator said, taints and additional roots, stays: a reader
 * that is behind must never see an authority without its taint.
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
