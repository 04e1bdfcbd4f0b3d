import { addSeconds, earlier, later, wholeSeconds } from "../x509/validity.ts";
import { overlapSeconds, type PhaseLengths, Schedule } from "./schedule.ts";

/**
 * The schedule of an authority that signed for a mesh before it was imported. Every verifier has its
 * root, so it is published and signs at once.
 *
 * It stops signing early enough for its last leaf to expire before its path does. If it is too old for that, it stops as
 * soon as a successor can take over.
 *
 * @param expiresAt When the first certificate on the path from the authority to its root expires.
 */
export function adoptedSchedule(lengths: PhaseLengths, expiresAt: Date, now: Date): Schedule {
  const signsFrom = wholeSeconds(now);
  const lastGoodLeaf = addSeconds(expiresAt, -overlapSeconds(lengths));
  const successorSigns = addSeconds(
    signsFrom,
    Schedule.leadSeconds(lengths) + lengths.propagationSeconds,
  );
  const atLatest = earlier(later(lastGoodLeaf, successorSigns), expiresAt);
  const signsUntil = earlier(addSeconds(signsFrom, lengths.signingSeconds), atLatest);
  const retiresAt = earlier(addSeconds(signsUntil, overlapSeconds(lengths)), expiresAt);
  return { publishedFrom: signsFrom, signsFrom, signsUntil, retiresAt };
}
