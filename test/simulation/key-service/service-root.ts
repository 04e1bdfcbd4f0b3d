import { planCrl } from "../../../src/ca/revocation/crl-plan.ts";
import { rootCrlLengths } from "../../../src/ca/revocation/keep-root-crls.ts";
import { isRenewalDue } from "../../../src/custody/key-service/service-root.ts";
import { createTaint } from "../../../src/pki/authority/new-taint.ts";
import { RotationStep, rootSince, Succession } from "../../../src/pki/authority/rotation.ts";
import { type PhaseLengths, Schedule } from "../../../src/pki/authority/schedule.ts";
import { SigningAuthority } from "../../../src/pki/authority/signing-authority.ts";
import { Taint } from "../../../src/pki/authority/taint.ts";
import type { PublishedAuthority } from "../../../src/pki/authority/trust-bundle.ts";
import { Hex } from "../../../src/pki/encoding/bytes.ts";
import type { Validity } from "../../../src/pki/x509/validity.ts";
import { at, day, hour, secondOf } from "../instants.ts";
import { type Random, seededRandom } from "../random.ts";
import { LaggingRecords, LaggingStore, type Reading } from "../store.ts";
import { Violation } from "../violation.ts";
import { nameOf, type Workload, Workloads } from "../workload.ts";

/** Changes to what this CA decides. A mutilation must break an invariant. */
export interface ServiceMutation {
  readonly schedule?: (schedule: Schedule) => Schedule;
  readonly isRenewed?: (isDue: boolean) => boolean;
  readonly crlSeconds?: (seconds: number) => number;
}

const octetsOf = (text: string) => new TextEncoder().encode(text);

/** The certificate of a root: its key with a number. */
interface Root {
  readonly key: string;
  readonly number: number;
  readonly validity: Validity;
}

const rootName = ({ key, number }: Root): string => `${key} ${number}`;

/** The CRL of a root's key, as the store has it. */
interface KeptCrl {
  readonly id: string;
  readonly key: string;
  readonly number: string;
  readonly until: number;
  readonly revoked: readonly string[];
}

/**
 * Lives through a root in a key service in virtual time: late, missed and doubled rotations, outages and disabled
 * keys of the service, another key as the successor, taints, the root's own renewal and its CRLs.
 *
 * @throws Violation
 */
export function simulateServiceRoot(seed: number, mutation: ServiceMutation = {}): void {
  new ServiceMesh(seed, seededRandom(seed), mutation).run();
}

class ServiceMesh {
  readonly #seed: number;
  readonly #random: Random;
  readonly #mutation: ServiceMutation;
  readonly #lengths: PhaseLengths;
  readonly #rootSeconds: number;
  readonly #cronInterval: number;
  readonly #end: number;
  /** Outages of the service, or times in which its key is disabled. */
  readonly #outages: readonly (readonly [number, number])[];
  readonly #taintAt: number;
  readonly #moveAt: number;
  readonly #store: LaggingStore;
  readonly #crls = new LaggingRecords<KeptCrl>();
  readonly #roots = new Map<string, Root>();
  readonly #workloads: Workloads;
  #isTainted = false;
  #key = "A";
  #installed = 0;
  /** Until when the mesh may be without a signer: the service answered too late. */
  #excusedUntil = 0;

  constructor(seed: number, random: Random, mutation: ServiceMutation) {
    this.#seed = seed;
    this.#random = random;
    this.#mutation = mutation;
    const propagationSeconds = Math.round(random.between(240, 1800));
    const longestLeafSeconds = Math.round(random.between(2 * hour, 30 * day));
    const signingSeconds = Math.round(
      (propagationSeconds + longestLeafSeconds) * random.between(2, 4),
    );
    this.#lengths = { propagationSeconds, longestLeafSeconds, signingSeconds };
    this.#rootSeconds = this.#lifetimeSeconds * random.between(2.2, 6);
    this.#cronInterval = Math.max(propagationSeconds, signingSeconds / random.between(10, 30));
    this.#end = 3 * signingSeconds + 8 * Schedule.leadSeconds(this.#lengths);
    this.#outages = Array.from({ length: 3 }, () => {
      const begins = random.between(0, this.#end);
      return [
        begins,
        begins + signingSeconds * random.between(0, random.chance(0.2) ? 3 : 0.4),
      ] as const;
    });
    this.#taintAt = random.chance(0.4) ? random.between(day, this.#end) : Number.POSITIVE_INFINITY;
    this.#moveAt = random.chance(0.5) ? random.between(0, this.#end) : Number.POSITIVE_INFINITY;
    this.#store = new LaggingStore(propagationSeconds, random);
    this.#workloads = new Workloads(4, longestLeafSeconds, random, (...what) =>
      this.#violation(...what),
    );
  }

  get #lifetimeSeconds(): number {
    return this.#lengths.signingSeconds + 2 * Schedule.leadSeconds(this.#lengths);
  }

  run(): void {
    this.#makeRoot(0);
    this.#install(0, true);
    let cronAt = this.#cronInterval * this.#random.fraction();
    for (;;) {
      const { next } = this.#workloads;
      const now = Math.min(cronAt, next.asksAt);
      if (now > this.#end) return;
      if (now < cronAt) this.#answer(next, now);
      else {
        this.#cron(now);
        cronAt = now + this.#cronInterval * this.#random.between(0.5, 1.5);
      }
    }
  }

  #isAway(now: number): boolean {
    return this.#outages.some(([from, until]) => from <= now && now < until);
  }

  #cron(now: number): void {
    const random = this.#random;
    if (random.chance(0.1)) return;
    if (now >= this.#moveAt && this.#key === "A") this.#key = "B";
    if (now >= this.#taintAt && !this.#isTainted) this.#taint(now);
    this.#rotate(now);
    if (random.chance(0.1)) this.#rotate(now + random.between(0, 5));
  }

  #rotate(now: number): void {
    const { authorities, taints } = this.#store.read(now);
    if (authorities.length === 0) return;
    const state = { authorities, taints, additionalRoots: [], authorityRoot: "upstream" } as const;
    for (const step of RotationStep.plan(state, this.#lengths, at(now))) {
      if (step.act === "prune") this.#store.authorities.delete(step.id, now);
      else if (step.act === "ask" && !this.#isAway(now)) this.#install(now, false);
      else if (step.act === "ask") this.#wait(Taint.apply(authorities, taints), now);
      else throw this.#violation(now, "a plan makes a root of its own");
    }
    this.#keepCrl(this.#store.read(now), now);
  }

  /** The runs of a cron that come next may be missed, and the service is away for longer than the spare time then. */
  #wait(authorities: readonly PublishedAuthority[], now: number): void {
    const { deadline } = Succession.of(authorities, this.#lengths);
    if (at(now + 4 * this.#cronInterval) > deadline) this.#excuse(now + 4 * this.#cronInterval);
  }

  /** Beyond its spare time a rotation breaks something until a lead after the service is back. */
  #excuse(now: number): void {
    const until = now + 4 * this.#cronInterval + 2 * Schedule.leadSeconds(this.#lengths);
    this.#excusedUntil = Math.max(this.#excusedUntil, until);
  }

  #makeRoot(now: number): Root {
    const validity = { notBefore: at(now), notAfter: at(now + this.#rootSeconds) };
    const root = { key: this.#key, number: this.#roots.size, validity };
    this.#roots.set(rootName(root), root);
    return root;
  }

  /** The root that signs: the latest of its key that the store shows, or one that renews it. */
  #root(now: number, reading: Reading): Root {
    const shown = new Set(reading.authorities.flatMap(({ roots }) => roots.map(nameOf)));
    const all = [...this.#roots.values()].filter(({ key }) => key === this.#key);
    // The configuration has the first one of a key, whatever the store shows.
    const latest = all.findLast((root, i) => i === 0 || shown.has(rootName(root)));
    if (!latest) return this.#makeRoot(now);
    const isDue = isRenewalDue(latest.validity, this.#lifetimeSeconds, at(now));
    return (this.#mutation.isRenewed?.(isDue) ?? isDue) ? this.#makeRoot(now) : latest;
  }

  #install(now: number, isFirst: boolean): void {
    const reading = this.#store.read(now);
    const root = this.#root(now, reading);
    const authorities = Taint.apply(reading.authorities, reading.taints);
    const roots = [octetsOf(rootName(root))];
    const visible = at(now + this.#lengths.propagationSeconds);
    const expiresAt = at(Math.min(now + this.#lifetimeSeconds, secondOf(root.validity.notAfter)));
    const since = roots[0] && rootSince(authorities, roots[0], visible);
    if (!isFirst && authorities.length > 0) {
      const { deadline, signsUntil } = Succession.of(authorities, this.#lengths);
      // The page says that a new root is to come in time, and what is late under a root that all know harms nobody.
      if (at(now) > deadline && !since) this.#excuse(now);
      if (visible > signsUntil) this.#excuse(now);
    }
    const othersSignUntil =
      authorities.length > 0
        ? at(Math.max(...authorities.map(({ schedule }) => secondOf(schedule.signsUntil))))
        : undefined;
    const facts = { expiresAt, rootSince: since, othersSignUntil };
    const decided = Schedule.installed(this.#lengths, facts, at(now));
    // As an import does: an intermediate without time to sign is refused.
    if (decided.signsUntil <= decided.signsFrom) {
      if (now > this.#excusedUntil) throw this.#violation(now, "an intermediate is too short");
      return;
    }
    const schedule = this.#mutation.schedule?.(decided) ?? decided;
    const id = `${this.#installed++}`.padStart(4, "0");
    this.#store.authorities.put({ id, roots, schedule }, now);
  }

  #taint(now: number): void {
    const { authorities, taints } = this.#store.read(now);
    const signing = SigningAuthority.at(authorities, at(now));
    if (!signing) return;
    const state = { authorities, taints };
    this.#isTainted = true;
    this.#store.taints.put(
      createTaint(state, signing.id, "immediately", this.#lengths, at(now)),
      now,
    );
    this.#excuse(now + this.#lengths.longestLeafSeconds);
  }

  /** Signs the CRL that is planned, as the cron does, unless the service is away. */
  #keepCrl({ authorities, taints }: Reading, now: number): void {
    const lengths = rootCrlLengths(this.#lengths);
    const lifetimeSeconds =
      this.#mutation.crlSeconds?.(lengths.lifetimeSeconds) ?? lengths.lifetimeSeconds;
    const key = this.#key;
    const below = authorities.filter(({ roots }) =>
      roots.some((root) => nameOf(root).startsWith(key)),
    );
    const revocations = taints
      .filter(({ id, retiresAt }) => retiresAt <= at(now) && below.some((each) => each.id === id))
      .map(({ id, retiresAt }) => ({
        authority: key,
        revokedAt: retiresAt,
        reason: "cACompromise" as const,
        knownFrom: at(secondOf(retiresAt) + lengths.propagationSeconds),
        certificates: new Map([[`0${id}`, Math.ceil(now + this.#lifetimeSeconds)]]),
      }));
    const content = planCrl(key, revocations, { ...lengths, lifetimeSeconds }, at(now));
    const number = Hex.format(content.number);
    const kept = this.#crls.read(() => now).filter((each) => each.key === key);
    const newest =
      kept
        .map((each) => each.number)
        .toSorted()
        .at(-1) ?? "";
    if (number <= newest || this.#isAway(now)) return;
    const revoked = content.revoked.map(({ serialNumber }) => serialNumber);
    const older = kept.find((each) => each.number === newest);
    const live = new Set(revocations.flatMap(({ certificates }) => [...certificates.keys()]));
    if (older?.revoked.some((each) => live.has(each) && !revoked.includes(each)))
      throw this.#violation(now, "a newer CRL forgets an intermediate");
    const until = secondOf(content.nextUpdate);
    this.#crls.put({ id: `${key} ${number}`, key, number, until, revoked }, now);
  }

  #answer(workload: Workload, now: number): void {
    const reading = this.#store.read(now);
    const authorities = Taint.apply(reading.authorities, reading.taints);
    const authority = SigningAuthority.at(authorities, at(now));
    if (!authority) {
      if (now >= 3 * this.#lengths.propagationSeconds && now > this.#excusedUntil)
        throw this.#violation(now, "nothing signs");
      workload.asksAt = now + this.#random.between(600, 6000);
      return;
    }
    this.#workloads.answer(workload, authority, authorities, now);
    this.#checkRoots(workload.bundle, now);
    this.#workloads.checkHandshakes(workload, now, ({ issuedAt }) =>
      [issuedAt, now].some((instant) => instant <= this.#excusedUntil),
    );
  }

  /** No root of the bundle has ended, and each key has a CRL that is good, once the service could sign one. */
  #checkRoots(bundle: ReadonlySet<string>, now: number): void {
    if (bundle.size > 6) throw this.#violation(now, "too many roots");
    const crls = this.#crls.read(() => now);
    for (const name of bundle) {
      const root = this.#roots.get(name);
      if (!root || root.validity.notAfter <= at(now))
        throw this.#violation(now, "a root has ended");
      const own = crls.filter(({ key }) => key === root.key);
      if (own.some(({ until }) => until > now)) continue;
      // Nobody signs for a key that was away until the mesh moved on.
      const settled = this.#settledAfter(secondOf(root.validity.notBefore));
      const wasNew = own.length === 0 && (now < settled || this.#moveAt < settled);
      if (!wasNew) throw this.#violation(now, "a root without a current CRL");
    }
  }

  /** Some runs after an instant, and after the outages that began by then. */
  #settledAfter(instant: number): number {
    const settled = instant + 8 * this.#cronInterval + 2 * this.#lengths.propagationSeconds;
    const outage = this.#outages.find(([from, until]) => from < settled && until > instant);
    return outage && outage[1] > instant
      ? Math.max(settled, this.#settledAfter(outage[1]))
      : settled;
  }

  #violation(now: number, what: string): Violation {
    return new Violation(`seed ${this.#seed}, second ${Math.round(now)}, a key service: ${what}`);
  }
}
