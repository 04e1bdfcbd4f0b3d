import type { PublishedAuthority } from "../../src/pki/authority/trust-bundle.ts";
import type { Random } from "./random.ts";

/** When a client comes back for its next certificate, in seconds after it got one. */
type Renewal = (leafSeconds: number, random: Random) => number;

const hour = 3600;

/** pilot-agent: half of the life, ± 1 %; ztunnel: half of it; Kmesh: an hour before the end. */
const renewals: readonly Renewal[] = [
  (seconds, random) => seconds * random.between(0.49, 0.51),
  (seconds) => seconds / 2,
  (seconds) => (seconds > 2 * hour ? seconds - hour : seconds / 2),
];

/** A workload: the leaf and the bundle of its last answer, and when it asks again. */
export interface Workload {
  readonly leafSeconds: number;
  readonly renewal: Renewal;
  asksAt: number;
  leaf:
    | {
        readonly authority: PublishedAuthority;
        readonly issuedAt: number;
        readonly expiresAt: number;
      }
    | undefined;
  bundle: ReadonlySet<string>;
}

/** Workloads of all kinds, with leaves up to the longest, that start one after the other. */
export function createWorkloads(
  count: number,
  longestLeafSeconds: number,
  from: number,
  random: Random,
): Workload[] {
  return Array.from({ length: count }, (_, i) => ({
    leafSeconds: i === 0 ? longestLeafSeconds : longestLeafSeconds * random.between(0.2, 1),
    renewal: renewals[i % renewals.length] ?? ((seconds) => seconds / 2),
    asksAt: from + random.between(0, longestLeafSeconds),
    leaf: undefined,
    bundle: new Set<string>(),
  }));
}

/** Whether it can still be authenticated by anybody. */
export function isLive(workload: Workload, now: number): boolean {
  return workload.leaf !== undefined && now < workload.leaf.expiresAt;
}
