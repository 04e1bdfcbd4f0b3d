import { leadSeconds, nextSchedule, type PhaseLengths, type Schedule } from "./schedule.ts";
import { addSeconds } from "./validity.ts";

/** What a plan needs to know of an authority. */
export interface ScheduledAuthority {
  readonly id: string;
  readonly schedule: Schedule;
}

/** Something that is due. */
export type RotationStep =
  | { readonly act: "mint"; readonly schedule: Schedule; readonly isOverdue: boolean }
  | { readonly act: "prune"; readonly id: string };

/**
 * What is due at `now`, decided from the authorities' schedules and from nothing else: the same
 * authorities and the same instant give the same plan, however often it is made.
 *
 * A successor is minted when half of the time is gone that its predecessor can spare: a cron that
 * fails has as long again to recover before anything is late.
 *
 * @param authorities Every authority of the store, in any order; at least one. An empty store is no
 *   matter of rotation.
 */
export function planRotation(
  authorities: readonly ScheduledAuthority[],
  lengths: PhaseLengths,
  now: Date,
): readonly RotationStep[] {
  const signUntil = latest(authorities.map(({ schedule }) => schedule.signsUntil));
  if (!signUntil) throw new Error("no authority to rotate");
  const steps: RotationStep[] = prunable(authorities, now).map((id) => ({ act: "prune", id }));
  if (now >= mintDue(signUntil, lengths)) {
    const schedule = nextSchedule(lengths, signUntil, now);
    const isOverdue = now > addSeconds(signUntil, -leadSeconds(lengths));
    steps.unshift({ act: "mint", schedule, isOverdue });
  }
  return steps;
}

/** When the successor of an authority that signs until then is to be minted. */
export function mintDue(signsUntil: Date, lengths: PhaseLengths): Date {
  const spareSeconds = (lengths.signingSeconds - leadSeconds(lengths)) / 2;
  return addSeconds(signsUntil, -leadSeconds(lengths) - Math.max(0, spareSeconds));
}

/**
 * The retired authorities that nothing needs any more. One is kept until the bundle has changed once
 * more after its retirement: until then, that instant is the bundle's sequence number.
 */
function prunable(authorities: readonly ScheduledAuthority[], now: Date): readonly string[] {
  const changes = authorities
    .flatMap(({ schedule }) => [schedule.publishedFrom, schedule.retiresAt])
    .filter((change) => change <= now);
  return authorities
    .filter(({ schedule }) => changes.some((change) => schedule.retiresAt < change))
    .map(({ id }) => id);
}

function latest(instants: readonly Date[]): Date | undefined {
  return instants.toSorted((a, b) => b.getTime() - a.getTime())[0];
}
