import { Bytes } from "../encoding/bytes.ts";
import { addSeconds, earlier, later } from "../x509/validity.ts";
import { type PhaseLengths, Schedule, type ScheduledAuthority } from "./schedule.ts";
import { Taint } from "./taint.ts";
import { type PublishedAuthority, TrustBundle } from "./trust-bundle.ts";

/** The input of a plan: what the records of a store say. */
export interface RotationState {
  /** Every authority, at least one, in any order, with the schedule that it was minted with. */
  readonly authorities: readonly PublishedAuthority[];
  /** The additional roots that verifiers accept beside those of the authorities. */
  readonly additionalRoots: readonly PublishedAuthority[];
  readonly taints: readonly Taint[];
  readonly authorityRoot: AuthorityRoot;
}

/**
 * Why a plan mints an authority: its time has come (`due`), its time is past (`overdue`), or taints leave
 * too little time (`taint`).
 */
type MintCause = "due" | "overdue" | "taint";

/** An act that is due. `ask` is a mint whose certificate a CA upstream has to sign. */
export type RotationStep =
  | { readonly act: "mint"; readonly schedule: Schedule; readonly cause: MintCause }
  | { readonly act: "ask"; readonly cause: MintCause }
  | { readonly act: "prune"; readonly id: string };

/** Plans the acts that are due. */
export const RotationStep = {
  /**
   * Plans the acts that are due at `now`. If `authorityRoot` is `offline` or `upstream`, no plan mints a self-signed
   * authority. The plan depends on the records and on `now` alone, so repeating it is harmless.
   *
   * A successor is minted when half of its predecessor's spare time is gone. A cron that fails has the other half to
   * recover before a rotation is late.
   */
  plan(state: RotationState, lengths: PhaseLengths, now: Date): readonly RotationStep[] {
    return [...planMint(state, lengths, now), ...planPruning(state, lengths, now)];
  },
};

function planMint(state: RotationState, lengths: PhaseLengths, now: Date): RotationStep[] {
  const { authorities, taints, authorityRoot } = state;
  const effective = Taint.apply(authorities, taints);
  const signsUntil = Succession.lastSignature(effective);
  const isLate = (until: Date): boolean => now > addSeconds(until, -Schedule.leadSeconds(lengths));
  const lateCause = isLate(Succession.lastSignature(authorities)) ? "overdue" : "taint";
  const cause = isLate(signsUntil) ? lateCause : "due";
  switch (authorityRoot) {
    case "offline":
      return [];
    case "upstream":
      return now < Succession.of(effective, lengths).due ? [] : [{ act: "ask", cause }];
    case "self":
      if (now < Succession.mintDue(signsUntil, lengths)) return [];
      return [{ act: "mint", schedule: Schedule.next(lengths, signsUntil, now), cause }];
  }
}

/** Computes when the next authority must be there. */
export const Succession = {
  /** When the last of the authorities stops signing. @throws Error without authorities. */
  lastSignature(authorities: readonly ScheduledAuthority[]): Date {
    const [first, ...others] = authorities.map(({ schedule }) => schedule.signsUntil);
    if (!first) throw new Error("no authority to rotate");
    return others.reduce(later, first);
  },

  /** When the cron mints the successor of an authority that signs until `signsUntil`. */
  mintDue(signsUntil: Date, lengths: PhaseLengths): Date {
    const spareSeconds = (lengths.signingSeconds - Schedule.leadSeconds(lengths)) / 2;
    return addSeconds(signsUntil, -Schedule.leadSeconds(lengths) - Math.max(0, spareSeconds));
  },

  /**
   * Computes when the successor of these authorities is due. It uses the signing phase that the last authority has, not
   * the configured length, because another CA decides how long an intermediate lives.
   *
   * @param authorities At least one, with schedules that taints have shortened.
   */
  of(authorities: readonly ScheduledAuthority[], lengths: PhaseLengths): Succession {
    const [last] = authorities
      .map(({ schedule }) => schedule)
      .toSorted((a, b) => b.signsUntil.getTime() - a.signsUntil.getTime());
    if (!last) throw new Error("no authority to succeed");
    const { signsFrom, signsUntil } = last;
    const deadline = addSeconds(signsUntil, -Schedule.leadSeconds(lengths));
    const spareSeconds = (deadline.getTime() - signsFrom.getTime()) / 2000;
    return { due: addSeconds(deadline, -Math.max(0, spareSeconds)), deadline, signsUntil };
  },
};

/**
 * The authorities that can be deleted.
 *
 * A retired authority stays until every reader knows that it has retired, and until a later change of the bundle: from
 * then on, the bundle's sequence number does not fall if the record is deleted.
 *
 * A tainted authority stays until its own schedule is over. Taints and additional roots stay for good, because a
 * reader that is behind must never see an authority without its taint.
 */
function planPruning(
  { authorities, additionalRoots }: RotationState,
  { propagationSeconds }: PhaseLengths,
  now: Date,
): RotationStep[] {
  const since = addSeconds(now, -propagationSeconds);
  const retired = authorities.filter(({ schedule }) => schedule.retiresAt < since);
  const ids = TrustBundle.dispensable(retired, [...authorities, ...additionalRoots], since);
  return ids.map((id) => ({ act: "prune", id }));
}

/**
 * The certifier of the authorities: each itself (`self`), a CA to which a person carries the request
 * (`offline`), or a CA that the program itself asks (`upstream`).
 */
export type AuthorityRoot = "self" | "offline" | "upstream";

/** The times for the successor of an intermediate. */
export interface Succession {
  /** When to request it: half of the spare time is gone by then, and the other half is left for an answer. */
  readonly due: Date;
  /** The latest time to install a successor under a new root, so that every verifier knows that root in time. */
  readonly deadline: Date;
  /** When the last authority stops signing. */
  readonly signsUntil: Date;
}

/**
 * The instant from which the bundle has a root without a gap up to `until`; `undefined` if it lacks the root at `until`.
 *
 * @param published Authorities and additional roots, with schedules that taints have shortened.
 */
export function rootSince(
  published: readonly PublishedAuthority[],
  root: Bytes,
  until: Date,
): Date | undefined {
  const spans = published
    .filter(({ roots }) => roots.some((each) => Bytes.equal(each, root)))
    .map(({ schedule }) => schedule);
  let since: Date | undefined;
  for (;;) {
    const reached = since ?? until;
    const before = spans
      .filter(({ publishedFrom, retiresAt }) => publishedFrom < reached && retiresAt >= reached)
      .map(({ publishedFrom }) => publishedFrom);
    if (before.length === 0) return since;
    since = before.reduce(earlier);
  }
}
