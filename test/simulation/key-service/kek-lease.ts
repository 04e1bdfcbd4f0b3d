import { markOf } from "../../../src/custody/kek.ts";
import { KekLease, type LeaseParts } from "../../../src/custody/key-service/kek-lease.ts";
import { KeyServiceError, type ServiceKey } from "../../../src/custody/key-service/key-service.ts";
import { CaError } from "../../../src/foundation/errors.ts";
import { clusterLocal } from "../../testkit/ca/sealed-authorities.ts";
import { type Random, seededRandom } from "../random.ts";
import { Violation } from "../violation.ts";

/** Changes to a lease. A mutilation must break an invariant. */
export type LeaseMutation = (parts: LeaseParts) => LeaseParts;

const octets = new Uint8Array(32).fill(7);
const mark = await markOf(octets, clusterLocal, "k1");

/** From an instant on: the service opens, does not, has the key disabled, or opens another KEK. */
interface Conduct {
  readonly from: number;
  readonly until: number;
  readonly fault: "is away" | "has disabled the key" | "another KEK";
}

/**
 * Lives through the leases of processes that start and end, in virtual time: outages of the service shorter and
 * longer than the lease, disabled keys, other KEKs, calls at any time, and clocks that are set back a little.
 *
 * @returns The invariant that the history breaks, if there is one.
 */
export async function leaseViolation(
  seed: number,
  mutation: LeaseMutation = (as) => as,
): Promise<string | undefined> {
  try {
    await new Lease(seed, seededRandom(seed), mutation).run();
    return undefined;
  } catch (error) {
    if (error instanceof Violation) return error.message;
    throw error;
  }
}

class Lease {
  readonly #seed: number;
  readonly #random: Random;
  readonly #mutation: LeaseMutation;
  readonly #leaseSeconds: number;
  readonly #conducts: readonly Conduct[];
  #now = 1_800_000_000;
  #held: KekLease;
  #renewals: Promise<void>[] = [];
  /** When this process opened the KEK last, and when it asked last. */
  #opened: number | undefined;
  #asked: number | undefined;

  constructor(seed: number, random: Random, mutation: LeaseMutation) {
    this.#seed = seed;
    this.#random = random;
    this.#mutation = mutation;
    this.#leaseSeconds = [60, 600, 3600, 86_400][Math.floor(random.between(0, 4))] ?? 3600;
    let from = this.#now;
    this.#conducts = Array.from({ length: 2 }, () => {
      from += this.#leaseSeconds * random.between(0, 1.2);
      const isLong = random.chance(0.5);
      const until =
        from + this.#leaseSeconds * (isLong ? random.between(1, 3) : random.between(0, 0.85));
      const kind = random.fraction();
      const fault = kind < 0.5 ? "is away" : kind < 0.8 ? "has disabled the key" : "another KEK";
      const conduct = { from, until, fault } as const;
      from = until;
      return conduct;
    });
    this.#held = this.#start();
  }

  async run(): Promise<void> {
    const random = this.#random;
    const end = (this.#conducts.at(-1)?.until ?? this.#now) + this.#leaseSeconds / 2;
    while (this.#now < end) {
      await this.#call();
      if (random.chance(0.03)) this.#held = this.#start();
      const isSetBack = random.chance(0.02) && this.#opened !== undefined;
      // At most what a lease tolerates; it may be asked sooner then, and never holds for longer.
      const seconds = isSetBack ? -random.between(0, 20) : this.#pause();
      this.#now = Math.round(1000 * (this.#now + seconds)) / 1000;
    }
  }

  /** A busy process asks many times in a tenth of its lease; an idle one seldom. */
  #pause(): number {
    return (
      this.#leaseSeconds *
      (this.#random.chance(0.9) ? this.#random.between(0.01, 0.09) : this.#random.between(0, 1.5))
    );
  }

  #clock(): Date {
    return new Date(Math.round(1000 * this.#now));
  }

  #faultNow(): Conduct["fault"] | undefined {
    return this.#conducts.find(({ from, until }) => from <= this.#now && this.#now < until)?.fault;
  }

  #start(): KekLease {
    [this.#opened, this.#asked, this.#renewals] = [undefined, undefined, []];
    const key: Pick<ServiceKey, "unwrap"> = {
      unwrap: async () => {
        const fault = this.#faultNow();
        this.#asked = this.#now;
        if (fault === "another KEK") return new Uint8Array(32).fill(8);
        if (fault) throw new KeyServiceError(fault);
        this.#opened = this.#now;
        return octets.slice();
      },
    };
    const parts: LeaseParts = {
      keks: [{ id: "k1", wrappings: [{ uri: "played://key", ciphertext: octets }], mark }],
      signers: [],
      trustDomain: clusterLocal,
      leaseSeconds: this.#leaseSeconds,
      keyServices: () => key as ServiceKey,
      clock: () => this.#clock(),
      monotonic: () => 0,
      random: () => this.#random.fraction(),
      log: { operation: () => {} },
      shareWork: () => ({ join: async (work) => work?.() }),
      inBackground: (work) => void this.#renewals.push(work),
    };
    return new KekLease(this.#mutation(parts));
  }

  async #call(): Promise<void> {
    const [opened, asked] = [this.#opened, this.#asked];
    const refusal = await this.#refusal();
    await Promise.all(this.#renewals.splice(0));
    // Several set-backs may add up to more than a lease tolerates.
    const isHeld =
      opened !== undefined && opened - 60 <= this.#now && this.#now < opened + this.#leaseSeconds;
    if (refusal === undefined) {
      const latest = this.#opened ?? Number.NEGATIVE_INFINITY;
      if (this.#now >= latest + this.#leaseSeconds)
        throw this.#violation("serves beyond its lease");
      return;
    }
    if (refusal !== "kek-unavailable") throw this.#violation(`refuses with ${refusal}`);
    if (isHeld) throw this.#violation("refuses within its lease");
    // It has forgotten the KEK, wherever its clock is set.
    this.#opened = undefined;
    const mayWait = asked !== undefined && Math.abs(this.#now - asked) < 30;
    if (!this.#faultNow() && !mayWait)
      throw this.#violation("refuses although the service answers");
  }

  /** Why a call is refused that uses the KEK as an issuance does; `undefined` for one that is not. */
  async #refusal(): Promise<string | undefined> {
    try {
      await this.#held.hold(this.#clock());
      const [kek] = this.#held.ring();
      return kek?.key.type === "secret" ? undefined : "no key";
    } catch (error) {
      return error instanceof CaError ? error.refusal.reason : String(error);
    }
  }

  #violation(what: string): Violation {
    return new Violation(`seed ${this.#seed}, second ${Math.round(this.#now)}: a process ${what}`);
  }
}
