import { RotationStep, rootSince, Succession } from "../../src/pki/authority/rotation.ts";
import {
  type Installation,
  type PhaseLengths,
  Schedule,
} from "../../src/pki/authority/schedule.ts";
import { SigningAuthority } from "../../src/pki/authority/signing-authority.ts";
import { type PublishedAuthority, TrustBundle } from "../../src/pki/authority/trust-bundle.ts";
import { at, day, hour, secondOf } from "./instants.ts";
import { type Random, seededRandom } from "./random.ts";
import { LaggingStore } from "./store.ts";
import { Violation } from "./violation.ts";
import { type Workload, Workloads } from "./workload.ts";

/** Changes to what an installation decides. A mutilation must break an invariant. */
export interface ForeignMutation {
  readonly schedule?: (schedule: Schedule) => Schedule;
  readonly installation?: (installation: Installation) => Installation;
}

/** Simulates one history of a mesh under roots of another CA, in virtual time. @throws Violation */
export function simulateForeignRoots(seed: number, mutation: ForeignMutation = {}): void {
  new ForeignMesh(seed, seededRandom(seed), mutation).run();
}

/**
 * The CA above the mesh. It has two roots at times. The next one is published beside the last one, is
 * cross-signed by it for a while, or comes without notice.
 */
class Company {
  readonly #random: Random;
  #generation = 0;
  #next: number | undefined;

  constructor(random: Random) {
    this.#random = random;
  }

  /** The roots of an answer: the one that its chain leads to, then what is published beside it. */
  answer(mayChange: boolean): readonly string[] {
    const random = this.#random;
    if (mayChange && random.chance(0.4)) {
      // A chain over a cross certificate leads to the old root, though the new one signs.
      if (this.#next === undefined && random.chance(0.5)) this.#next = this.#generation + 1;
      else this.#turn();
    }
    const own = `root ${this.#generation}`;
    return this.#next === undefined ? [own] : [own, `root ${this.#next}`];
  }

  #turn(): void {
    this.#generation = this.#next ?? this.#generation + 1;
    this.#next = undefined;
  }
}

class ForeignMesh {
  readonly #seed: number;
  readonly #random: Random;
  readonly #mutation: ForeignMutation;
  readonly #lengths: PhaseLengths;
  #end: number;
  readonly #store: LaggingStore;
  readonly #company: Company;
  readonly #workloads: Workloads;
  readonly #contents = new Map<number, string>();
  #installed = 0;

  constructor(seed: number, random: Random, mutation: ForeignMutation) {
    this.#seed = seed;
    this.#random = random;
    this.#mutation = mutation;
    const propagationSeconds = Math.round(random.between(240, 1800));
    const longestLeafSeconds = Math.round(random.between(2 * hour, 90 * day));
    this.#lengths = { propagationSeconds, longestLeafSeconds, signingSeconds: 1 };
    this.#end = 12 * (propagationSeconds + longestLeafSeconds);
    this.#store = new LaggingStore(propagationSeconds, random);
    this.#company = new Company(random);
    this.#workloads = new Workloads(6, longestLeafSeconds, random, (...what) =>
      this.#violation(...what),
    );
  }

  run(): void {
    this.#install(0, true);
    let stepAt = this.#nextStep(0);
    for (;;) {
      const { next } = this.#workloads;
      const now = Math.min(stepAt, next.asksAt);
      if (now > this.#end) return;
      if (now < stepAt) this.#answer(next, now);
      else stepAt = this.#succeed(now);
    }
  }

  /** When somebody installs the next intermediate: between its due date and its deadline, seldom later. */
  #nextStep(now: number): number {
    const { authorities } = this.#store.read(now + this.#lengths.propagationSeconds);
    const { due, deadline, signsUntil } = Succession.of(authorities, this.#lengths);
    const latest = secondOf(signsUntil) - 2 * this.#lengths.propagationSeconds;
    const isLate = this.#random.chance(0.15);
    const [from, until] = isLate ? [deadline, at(latest)] : [due, deadline];
    return Math.max(now, this.#random.between(secondOf(from), secondOf(until)));
  }

  #succeed(now: number): number {
    const { authorities } = this.#store.read(now);
    const state = { authorities, additionalRoots: [], taints: [] };
    const steps = RotationStep.plan({ ...state, authorityRoot: "offline" }, this.#lengths, at(now));
    for (const step of steps) {
      if (step.act !== "prune") throw this.#violation(now, "a plan makes a root of its own");
      this.#store.authorities.delete(step.id, now);
    }
    const { deadline } = Succession.of(authorities, this.#lengths);
    const isInTime = at(now + 5) <= deadline;
    this.#install(now, isInTime);
    // Another run, which may not see the first.
    if (isInTime && this.#random.chance(0.2)) {
      this.#install(now + this.#random.between(0, 4), true);
    }
    return this.#nextStep(now);
  }

  /**
   * Installs an answer of the company, from a lagging reading, as the verb and the cron do. A late one may
   * come only under a root that the bundle has.
   */
  #install(now: number, mayChangeRoot: boolean): void {
    const id = `${this.#installed++}`.padStart(4, "0");
    const { authorities } = this.#store.read(now);
    const roots = this.#company.answer(mayChangeRoot).map((name) => new TextEncoder().encode(name));
    const visible = at(now + this.#lengths.propagationSeconds);
    const installation = {
      expiresAt: at(now + Schedule.leadSeconds(this.#lengths) * this.#random.between(3.2, 8)),
      rootSince: roots[0] && rootSince(authorities, roots[0], visible),
      othersSignUntil:
        authorities.length > 0
          ? at(Math.max(...authorities.map(({ schedule }) => secondOf(schedule.signsUntil))))
          : undefined,
    };
    // The page of the operator says that this breaks leaves, so the history ends here.
    if (!mayChangeRoot && !installation.rootSince) this.#end = now;
    const decided = this.#mutation.installation?.(installation) ?? installation;
    const schedule = Schedule.installed(this.#lengths, decided, at(now));
    this.#store.authorities.put(
      { id, roots, schedule: this.#mutation.schedule?.(schedule) ?? schedule },
      now,
    );
  }

  /** Answers a workload from a lagging reader. */
  #answer(workload: Workload, now: number): void {
    const { authorities } = this.#store.read(now);
    const authority = SigningAuthority.at(authorities, at(now));
    if (!authority) {
      if (now >= 3 * this.#lengths.propagationSeconds) throw this.#violation(now, "nothing signs");
      workload.asksAt = now + this.#random.between(60, 600);
      return;
    }
    this.#workloads.answer(workload, authority, authorities, now);
    // The number of a bundle costs most of the time, and each is met many times.
    if (this.#random.chance(0.2)) this.#checkSequence(authorities, workload.bundle, now);
    this.#workloads.checkHandshakes(workload, now);
  }

  #checkSequence(
    authorities: readonly PublishedAuthority[],
    bundle: ReadonlySet<string>,
    now: number,
  ): void {
    if (bundle.size > 6) throw this.#violation(now, "too many roots");
    const sequence = TrustBundle.sequence([TrustBundle.historyAt(authorities, [], at(now))]);
    const content = [...bundle].toSorted().join();
    const known = this.#contents.get(sequence) ?? content;
    if (known !== content) throw this.#violation(now, "two bundles of one sequence");
    this.#contents.set(sequence, content);
  }

  #violation(now: number, what: string): Violation {
    return new Violation(`seed ${this.#seed}, second ${Math.round(now)}, foreign roots: ${what}`);
  }
}
