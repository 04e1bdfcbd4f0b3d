import { type Bytes, bytesEqual } from "../encoding/bytes.ts";
import { addSeconds, earlier } from "../x509/validity.ts";
import { leadSeconds, type PhaseLengths, type ScheduledAuthority } from "./schedule.ts";
import type { PublishedAuthority } from "./trust-bundle.ts";

/**
 * The certifier of the authorities: each itself (`self`), a CA to which a person carries the request
 * (`offline`), or one that answers (`upstream`).
 */
export type AuthorityRoot = "self" | "offline" | "upstream";

/** When the successor of an intermediate has to come. */
export interface Succession {
  /** When to ask for it: half of the spare time is gone, so that the other half is left for an answer. */
  readonly due: Date;
  /** The last instant at which one under a new root is installed in time for every verifier to know that root. */
  readonly deadline: Date;
  /** When the last authority stops signing. */
  readonly signsUntil: Date;
}

/**
 * When the successor of these authorities is due. The length of the last one's signing phase counts, because
 * another CA decides how long its certificate lives.
 *
 * @param authorities With the schedules that the taints leave them. At least one.
 */
export function successionOf(
  authorities: readonly ScheduledAuthority[],
  lengths: PhaseLengths,
): Succession {
  const [last] = authorities
    .map(({ schedule }) => schedule)
    .toSorted((a, b) => b.signsUntil.getTime() - a.signsUntil.getTime());
  if (!last) throw new Error("no authority to succeed");
  const { signsFrom, signsUntil } = last;
  const deadline = addSeconds(signsUntil, -leadSeconds(lengths));
  const spareSeconds = (deadline.getTime() - signsFrom.getTime()) / 2000;
  return { due: addSeconds(deadline, -Math.max(0, spareSeconds)), deadline, signsUntil };
}

/**
 * Since when the bundle has a root without a gap up to `until`; `undefined` if it does not have it then.
 *
 * @param published Authorities and additional roots, with the schedules that the taints leave them.
 */
export function rootSince(
  published: readonly PublishedAuthority[],
  root: Bytes,
  until: Date,
): Date | undefined {
  const spans = published
    .filter(({ roots }) => roots.some((each) => bytesEqual(each, root)))
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
