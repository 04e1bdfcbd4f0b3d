import { adoptedSchedule } from "../../src/pki/authority/adopted-schedule.ts";
import { createTaint, type Departure } from "../../src/pki/authority/new-taint.ts";
import { RotationStep } from "../../src/pki/authority/rotation.ts";
import { type PhaseLengths, Schedule } from "../../src/pki/authority/schedule.ts";
import { SigningAuthority } from "../../src/pki/authority/signing-authority.ts";
import { Taint } from "../../src/pki/authority/taint.ts";
import { type PublishedAuthority, TrustBundle } from "../../src/pki/authority/trust-bundle.ts";
import { at, day, hour } from "./instants.ts";
import { type Random, seededRandom } from "./random.ts";
import { LaggingStore, type Reading } from "./store.ts";
import { Violation } from "./violation.ts";
import { type Workload, Workloads } from "./workload.ts";

/** Changes to schedules and taints. A mutilation must break an invariant. */
export interface Mutation {
  readonly schedule?: (schedule: Schedule) => Schedule;
  readonly taint?: (taint: Taint) => Taint;
}

/** Whose authority is a mesh's first: the CA's own, or that of istiod, whose leaves are alive when the mesh moves in. */
type Founder = "self" | "istiod";

/** Three generations, each of the authorities that runs of the cron mint without seeing each other. */
const maximumRoots = 12;

/** The parameters of one history. */
interface Setting {
  readonly lengths: PhaseLengths;
  /** How far the clock of any process is ahead or behind. */
  readonly skew: number;
  readonly cronInterval: number;
  readonly end: number;
  /** The outage of the cron that the planner promises to survive. */
  readonly spare: number;
  readonly cronOutage: readonly [number, number];
  readonly outages: readonly (readonly [number, number])[];
  /** The instant at which an operator taints an authority, if ever. */
  readonly taintAt: number;
  readonly departure: Departure;
  readonly founder: Founder;
}

/** Simulates one history of a mesh in virtual time. @throws Violation */
export function simulate(seed: number, mutation: Mutation = {}, founder: Founder = "self"): void {
  const random = seededRandom(seed);
  new Mesh(seed, createSetting(random, founder), random, mutation).run();
}

function createSetting(random: Random, founder: Founder): Setting {
  const propagationSeconds = Math.round(random.between(240, 1800));
  const longestLeafSeconds = Math.round(random.between(2 * hour, 90 * day));
  const overlap = propagationSeconds + longestLeafSeconds;
  const signingSeconds = Math.round(overlap * random.between(2, 4));
  const lengths = { propagationSeconds, longestLeafSeconds, signingSeconds };
  const spare = (signingSeconds - Schedule.leadSeconds(lengths)) / 2;
  const cronInterval = Math.max(propagationSeconds, spare / random.between(6, 20));
  const end = 3 * (signingSeconds + 2 * overlap);
  const outageBegins = random.between(day, end);
  return {
    lengths,
    skew: random.chance(0.5) ? random.between(0, propagationSeconds / 4) : 0,
    cronInterval,
    end,
    spare,
    cronOutage: [outageBegins, outageBegins + spare],
    taintAt: random.chance(0.5) ? random.between(day, end) : Number.POSITIVE_INFINITY,
    departure: random.chance(0.5) ? "immediately" : "with-last-leaf",
    founder,
    outages: Array.from({ length: 3 }, () => {
      const begins = random.between(0, end);
      return [begins, begins + random.between(hour, 12 * hour)] as const;
    }),
  };
}

const isWithin = (now: number, [from, until]: readonly [number, number]): boolean =>
  from <= now && now < until;

class Mesh {
  readonly #seed: number;
  readonly #setting: Setting;
  readonly #random: Random;
  readonly #mutation: Mutation;
  readonly #store: LaggingStore;
  readonly #workloads: Workloads;
  readonly #contents = new Map<number, string>();
  readonly #settledAt: number;
  #minted = 0;
  #lastCompleteRun = 0;
  #taintedId: string | undefined;

  constructor(seed: number, setting: Setting, random: Random, mutation: Mutation) {
    this.#seed = seed;
    this.#setting = setting;
    this.#random = random;
    this.#mutation = mutation;
    const { propagationSeconds, longestLeafSeconds } = setting.lengths;
    // Two clocks and the store share a propagation interval.
    this.#store = new LaggingStore(propagationSeconds - 2 * setting.skew, random);
    this.#settledAt = setting.founder === "istiod" ? 0 : 3 * propagationSeconds;
    this.#workloads = new Workloads(6, longestLeafSeconds, random, (...what) =>
      this.#violation(...what),
    );
  }

  run(): void {
    if (this.#setting.founder === "istiod") this.#moveIn();
    else this.#found(0);
    let cronAt = this.#setting.lengths.propagationSeconds * this.#random.fraction();
    for (;;) {
      const { next } = this.#workloads;
      const taintAt = this.#taintedId ? Number.POSITIVE_INFINITY : this.#setting.taintAt;
      const now = Math.min(cronAt, next.asksAt, taintAt);
      if (now > this.#setting.end) return;
      if (now === taintAt) this.#taint(now);
      else if (now < cronAt) this.#answer(next, now);
      else cronAt = this.#cron(cronAt);
    }
  }

  /** Runs the cron once, twice or not at all. @returns The time of the next run. */
  #cron(now: number): number {
    const random = this.#random;
    const { cronInterval, cronOutage, spare } = this.#setting;
    const mayFail = now + 1.5 * cronInterval - this.#lastCompleteRun < spare;
    const isMissed = isWithin(now, cronOutage) || random.chance(0.3);
    if (!mayFail || !isMissed) {
      this.#rotate(now, mayFail);
      if (random.chance(0.2)) this.#rotate(now + random.between(0, 5), mayFail);
    }
    return now + cronInterval * random.between(0.5, 1.5);
  }

  #rotate(now: number, mayFail: boolean): void {
    const reading = this.#store.read(now);
    if (reading.authorities.length === 0) {
      if (now < day && this.#setting.founder === "self") this.#found(now);
      return;
    }
    let isComplete = true;
    for (const step of this.#plan(reading, now)) {
      if (mayFail && this.#random.chance(0.1)) isComplete = false;
      else this.#carryOut(step, now);
    }
    if (isComplete) this.#lastCompleteRun = now;
  }

  #plan(reading: Reading, now: number): readonly RotationStep[] {
    return RotationStep.plan(
      { ...reading, additionalRoots: [], authorityRoot: "self" },
      this.#setting.lengths,
      this.#clock(now),
    );
  }

  /** The time by the clock of one process. */
  #clock(now: number): Date {
    const { skew } = this.#setting;
    return at(now + this.#random.between(-skew, skew));
  }

  #carryOut(step: RotationStep, now: number): void {
    if (step.act === "mint") this.#mint(step.schedule, now);
    else if (step.act === "prune") this.#store.authorities.delete(step.id, now);
  }

  /** Taints an authority as the verb does, with the steps that the cron would take next. */
  #taint(now: number): void {
    const { authorities } = this.#store.read(now);
    const authority = SigningAuthority.at(authorities, at(now)) ?? authorities[0];
    if (!authority) throw this.#violation(now, "no authority to taint");
    const { departure, lengths } = this.#setting;
    const decided = createTaint(
      { authorities, taints: [] },
      authority.id,
      departure,
      lengths,
      at(now),
    );
    const taint = this.#mutation.taint?.(decided) ?? decided;
    this.#taintedId = taint.id;
    this.#store.taints.put(taint, now);
    for (const step of this.#plan({ authorities, taints: [taint] }, now)) this.#carryOut(step, now);
  }

  #found(now: number): void {
    this.#mint(Schedule.first(this.#setting.lengths, this.#clock(now)), now);
  }

  /** Adopts istiod's authority before anybody asks this CA. Half of the workloads have a leaf of istiod's. */
  #moveIn(): void {
    const { propagationSeconds, signingSeconds, longestLeafSeconds } = this.#setting.lengths;
    const expiresAt = this.#random.between(1, 3) * (signingSeconds + 2 * longestLeafSeconds);
    const now = -propagationSeconds;
    const adopted = adoptedSchedule(this.#setting.lengths, at(expiresAt), this.#clock(now));
    const authority = this.#mint(adopted, now);
    for (const [i, workload] of this.#workloads.all.entries()) {
      if (i % 2 === 0) continue;
      workload.leaf = { authority, issuedAt: now, expiresAt: now + workload.leafSeconds };
      workload.bundle = new Set([authority.id]);
      workload.asksAt = now + this.#workloads.renewalWait(workload, now);
    }
  }

  #mint(decided: Schedule, now: number): PublishedAuthority {
    const id = `${this.#minted++}`.padStart(4, "0");
    const roots = [new TextEncoder().encode(id)];
    const schedule = this.#mutation.schedule?.(decided) ?? decided;
    const authority = { id, roots, schedule };
    this.#store.authorities.put(authority, now);
    return authority;
  }

  /** Answers a workload from a lagging reader. During an outage there is no answer. */
  #answer(workload: Workload, now: number): void {
    if (this.#setting.outages.some((outage) => isWithin(now, outage))) {
      workload.asksAt = now + this.#random.between(60, 600);
      return;
    }
    const reading = this.#store.read(now);
    const clock = this.#clock(now);
    const authorities = Taint.apply(reading.authorities, reading.taints);
    const authority = SigningAuthority.at(authorities, clock);
    if (!authority) {
      this.#keepWaiting(workload, now);
      return;
    }
    const published = this.#workloads.answer(workload, authority, authorities, now, clock);
    this.#checkTainted(authority, published, now);
    this.#checkSequence(reading.authorities, published, reading.taints, clock);
    this.#workloads.checkHandshakes(workload, now, (leaf) => this.#isExcused(leaf, now));
  }

  /** Before the first authority signs, nothing does; later, a taint may leave none for two propagation intervals. */
  #keepWaiting(workload: Workload, now: number): void {
    const { taintAt, lengths } = this.#setting;
    if (
      now >= this.#settledAt &&
      !isWithin(now, [taintAt, taintAt + 2 * lengths.propagationSeconds])
    ) {
      throw this.#violation(now, "nothing signs");
    }
    workload.asksAt = now + this.#random.between(60, 600);
  }

  #checkTainted(signed: PublishedAuthority, published: readonly PublishedAuthority[], now: number) {
    const { taintAt, departure, lengths } = this.#setting;
    if (now <= taintAt + lengths.propagationSeconds) return;
    if (signed.id === this.#taintedId) throw this.#violation(now, "a tainted authority signs");
    if (departure === "immediately" && published.some(({ id }) => id === this.#taintedId)) {
      throw this.#violation(now, "a root that was to leave at once is still there");
    }
  }

  #checkSequence(
    authorities: readonly PublishedAuthority[],
    published: readonly PublishedAuthority[],
    taints: readonly Taint[],
    clock: Date,
  ): void {
    const now = clock.getTime() / 1000;
    if (published.length > maximumRoots) throw this.#violation(now, "too many roots");
    const sequence = TrustBundle.sequence([TrustBundle.historyAt(authorities, taints, clock)]);
    const content = published.map(({ id }) => id).join();
    const known = this.#contents.get(sequence) ?? content;
    if (known !== content) throw this.#violation(now, "two bundles of one sequence");
    this.#contents.set(sequence, content);
  }

  /**
   * A taint may break leaves until every workload has renewed. Leaves of the tainted authority break if its
   * root leaves at once; leaves of its successor, before every bundle has the new root.
   */
  #isExcused({ issuedAt }: { readonly issuedAt: number }, now: number): boolean {
    const { taintAt, departure, lengths } = this.#setting;
    const settled = taintAt + 2 * lengths.propagationSeconds + lengths.longestLeafSeconds;
    if (!isWithin(now, [taintAt, settled])) return false;
    return departure === "immediately" || issuedAt >= taintAt;
  }

  #violation(now: number, what: string): Violation {
    return new Violation(`seed ${this.#seed}, second ${Math.round(now)}: ${what}`);
  }
}
