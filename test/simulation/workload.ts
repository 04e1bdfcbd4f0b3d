import type { PublishedAuthority } from "../../src/pki/authority/trust-bundle.ts";
import { type RenewalRule, renewalRules } from "../testkit/callers/renewal-rules.ts";
import type { Random } from "./random.ts";

const hour = 3600;

/** The rules of all clients. Nobody gives Kmesh, which asks for a day, a leaf of so little that it loops. */
const renewals: readonly RenewalRule[] = [
  renewalRules["pilot-agent"],
  renewalRules.ztunnel,
  (validity, now, fraction) => {
    const wait = renewalRules.Kmesh(validity, now);
    return wait > hour ? wait : renewalRules["pilot-agent"](validity, now, fraction);
  },
];

/** A workload, with the leaf and the bundle of its last answer, and the time of its next request. */
export interface Workload {
  readonly leafSeconds: number;
  readonly renewal: RenewalRule;
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

/** Creates workloads with all renewal rules and leaves up to the longest. They start one by one, or at once. */
export function createWorkloads(
  count: number,
  longestLeafSeconds: number,
  random: Random,
): Workload[] {
  return Array.from({ length: count }, (_, i) => ({
    leafSeconds: i === 0 ? longestLeafSeconds : longestLeafSeconds * random.between(0.2, 1),
    renewal: renewals[i % renewals.length] ?? renewalRules.ztunnel,
    // Half of them ask from the first minute on, before anything signs.
    asksAt: i % 2 === 0 ? random.between(0, 60) : random.between(0, longestLeafSeconds),
    leaf: undefined,
    bundle: new Set<string>(),
  }));
}

/** Whether its leaf is unexpired. */
export function isLive(workload: Workload, now: number): boolean {
  return workload.leaf !== undefined && now < workload.leaf.expiresAt;
}
