import { type PublishedAuthority, TrustBundle } from "../../src/pki/authority/trust-bundle.ts";
import { addSeconds, Validity } from "../../src/pki/x509/validity.ts";
import { type RenewalRule, renewalRules } from "../testkit/callers/renewal-rules.ts";
import { always, at, hour } from "./instants.ts";
import type { Random } from "./random.ts";
import type { Violation } from "./violation.ts";

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
  /** The names of its roots. */
  bundle: ReadonlySet<string>;
}

const nameOf = (root: Uint8Array): string => new TextDecoder().decode(root);

/** The workloads of a mesh, which get leaves by their renewal rules and authenticate each other. */
export class Workloads {
  readonly all: readonly Workload[];
  readonly #random: Random;
  readonly #violation: (now: number, what: string) => Violation;

  /** Creates workloads with all renewal rules and leaves up to the longest. They start one by one, or at once. */
  constructor(
    count: number,
    longestLeafSeconds: number,
    random: Random,
    violation: (now: number, what: string) => Violation,
  ) {
    this.#random = random;
    this.#violation = violation;
    this.all = Array.from({ length: count }, (_, i) => ({
      leafSeconds: i === 0 ? longestLeafSeconds : longestLeafSeconds * random.between(0.2, 1),
      renewal: renewals[i % renewals.length] ?? renewalRules.ztunnel,
      // Half of them ask from the first minute on, before anything signs.
      asksAt: i % 2 === 0 ? random.between(0, 60) : random.between(0, longestLeafSeconds),
      leaf: undefined,
      bundle: new Set<string>(),
    }));
  }

  /** The one that asks next. */
  get next(): Workload {
    return this.all.reduce((a, b) => (b.asksAt < a.asksAt ? b : a));
  }

  /**
   * Answers one with a leaf and the bundle of these authorities, by the clock of the CA.
   *
   * @returns What the bundle has. @throws Violation for a leaf that outlives its authority, or a client that asks too soon
   */
  answer(
    workload: Workload,
    authority: PublishedAuthority,
    authorities: readonly PublishedAuthority[],
    now: number,
    clock: Date,
  ): readonly PublishedAuthority[] {
    if (addSeconds(clock, workload.leafSeconds) > authority.schedule.retiresAt) {
      throw this.#violation(now, "a leaf outlives its authority");
    }
    const published = TrustBundle.authoritiesAt(authorities, clock);
    workload.leaf = { authority, issuedAt: now, expiresAt: now + workload.leafSeconds };
    workload.bundle = new Set(published.flatMap(({ roots }) => roots.map(nameOf)));
    workload.asksAt = now + this.renewalWait(workload, now);
    return published;
  }

  /** The wait of a client for its next leaf, by its rule and the validity of its leaf. */
  renewalWait({ leafSeconds, renewal }: Workload, now: number): number {
    const lifetimes = { defaultSeconds: leafSeconds, maximumSeconds: leafSeconds };
    const validity = Validity.ofLeaf(BigInt(Math.floor(leafSeconds)), lifetimes, always, at(now));
    const wait = renewal(validity, at(now), this.#random.fraction());
    if (wait < 0.4 * leafSeconds) throw this.#violation(now, "a client asks again too soon");
    return wait;
  }

  /**
   * Only this workload's leaf and bundle changed, so only its pairs need a check.
   *
   * @param isExcused Leaves that need not verify. @throws Violation
   */
  checkHandshakes(
    changed: Workload,
    now: number,
    isExcused: (leaf: NonNullable<Workload["leaf"]>) => boolean,
  ): void {
    for (const peer of this.all) {
      if (!peer.leaf || now >= peer.leaf.expiresAt) continue;
      for (const [{ leaf }, { bundle }] of [
        [changed, peer],
        [peer, changed],
      ] as const) {
        const [root] = leaf?.authority.roots ?? [];
        if (leaf && root && !bundle.has(nameOf(root)) && !isExcused(leaf)) {
          throw this.#violation(now, "a live leaf does not verify");
        }
      }
    }
  }
}
