import type { Schedule } from "../../src/pki/authority/schedule.ts";
import { type StatedTokenKey, TokenKey } from "../../src/pki/jose/token-key.ts";
import { type Random, seededRandom } from "./random.ts";
import { Violation } from "./violation.ts";

/** Changes to the schedules of keys. A mutilation must break the invariant. */
export interface KeyMutation {
  readonly schedule?: (schedule: Schedule) => Schedule;
}

const hour = 3600;
const day = 24 * hour;

/** The longest that a relying party keeps a set, and how old the set may be when it gets it. */
const relyingPartySeconds = day;
const cacheSeconds = 300;
const readers = 3;

/** A record of the store: when each reader, the last of which is the cron, sees it, its taint and its end. */
interface Kept {
  readonly key: StatedTokenKey;
  readonly seenFrom: readonly number[];
  taintedFrom?: readonly number[];
  goneFrom?: readonly number[];
}

/**
 * Lives through the keys of tokens in virtual time: rotations that are late, missed or doubled, taints, changed
 * algorithms, readers of the store that are behind, and clocks that differ. A relying party that refreshes in time
 * never refuses a live token, unless its key was tainted.
 *
 * @throws Violation
 */
export function simulateTokenKeys(seed: number, mutation: KeyMutation = {}): void {
  new TokenKeys(seed, seededRandom(seed), mutation).run();
}

class TokenKeys {
  readonly #seed: number;
  readonly #random: Random;
  readonly #mutation: KeyMutation;
  readonly #propagationSeconds: number;
  readonly #mostSkew: number;
  readonly #skews: readonly number[];
  readonly #kept: Kept[] = [];
  #algorithm: TokenKey["algorithm"] = "ES256";

  constructor(seed: number, random: Random, mutation: KeyMutation) {
    this.#seed = seed;
    this.#random = random;
    this.#mutation = mutation;
    this.#propagationSeconds = [5, 120, 600, 1800][Math.floor(random.between(0, 4))] ?? 600;
    this.#mostSkew = Math.min(120, this.#propagationSeconds / 4);
    const half = this.#mostSkew / 2;
    this.#skews = Array.from({ length: readers + 1 }, () => random.between(-half, half));
  }

  run(): void {
    const random = this.#random;
    const start = 1_800_000_000;
    const end = start + random.between(3 * hour, 120 * day);
    for (let now = start; now < end; now += this.#untilNext()) {
      this.#rotate(now);
      if (random.chance(0.1)) this.#rotate(now + random.between(0, this.#propagationSeconds));
      if (random.chance(0.02)) this.#taint(now + random.between(0, hour));
      if (random.chance(0.01)) this.#algorithm = random.chance(0.5) ? "RS256" : "ES256";
      for (let i = 0; i < 3; i++) this.#useToken(now + random.between(0, day));
      this.#useToken(this.#turnBefore(now));
    }
  }

  /** A quarter of an hour, hours, and at times an outage of weeks. */
  #untilNext(): number {
    const random = this.#random;
    if (random.chance(0.02)) return random.between(day, 60 * day);
    return random.chance(0.3) ? 900 : random.between(hour, 30 * hour);
  }

  /** About when a key begins or ends to sign: little is refused at any other time. */
  #turnBefore(now: number): number {
    const random = this.#random;
    const turns = this.#kept
      .flatMap(({ key: { schedule } }) => [schedule.signsFrom, schedule.signsUntil])
      .map((turn) => turn.getTime() / 1000)
      .filter((turn) => turn < now);
    const turn = turns[Math.floor(random.between(0, turns.length))] ?? now;
    return turn + random.between(-hour, hour);
  }

  #lags(now: number): readonly number[] {
    // The interval covers the clocks as well.
    const longest = this.#propagationSeconds - this.#mostSkew;
    return this.#skews.map(() => now + this.#random.between(0, longest));
  }

  /** The keys as a reader sees them at a real time. */
  #seenBy(reader: number, now: number): StatedTokenKey[] {
    return this.#kept.flatMap(({ key, seenFrom, taintedFrom, goneFrom }) => {
      if ((seenFrom[reader] ?? 0) > now || (goneFrom?.[reader] ?? now + 1) <= now) return [];
      return [{ ...key, isTainted: (taintedFrom?.[reader] ?? now + 1) <= now }];
    });
  }

  #clockOf(reader: number, now: number): Date {
    return new Date(1000 * (now + (this.#skews[reader] ?? 0)));
  }

  #rotate(now: number): void {
    const clock = this.#clockOf(readers, now);
    const keys = this.#seenBy(readers, now);
    const { mint, prune } = TokenKey.plan(
      keys,
      {
        algorithm: this.#algorithm,
        propagationSeconds: this.#propagationSeconds,
        isMeshRunning: true,
      },
      clock,
    );
    for (const each of this.#kept)
      if (prune.includes(each.key.id)) each.goneFrom ??= this.#lags(now);
    if (!mint) return;
    const schedule = this.#mutation.schedule?.(mint) ?? mint;
    const id = `key ${this.#kept.length} ${this.#random.fraction()}`;
    const key = { id, schedule, algorithm: this.#algorithm, spki: new Uint8Array() };
    this.#kept.push({ key: { ...key, isTainted: false }, seenFrom: this.#lags(now) });
  }

  #taint(now: number): void {
    const clock = this.#clockOf(0, now);
    const signing = TokenKey.signingAt(this.#seenBy(0, now), this.#algorithm, clock);
    const found = this.#kept.find(({ key }) => key.id === signing?.id);
    if (found) found.taintedFrom ??= this.#lags(now);
  }

  /** One reader signs; a relying party with a set of some other reader gets the token while it lives. */
  #useToken(now: number): void {
    const random = this.#random;
    const signer = Math.floor(random.between(0, readers));
    const key = TokenKey.signingAt(
      this.#seenBy(signer, now),
      this.#algorithm,
      this.#clockOf(signer, now),
    );
    if (!key) return;
    const usedAt = now + random.between(0, TokenKey.longestTokenSeconds);
    const most = random.chance(0.5) ? relyingPartySeconds : TokenKey.longestTokenSeconds;
    const age = random.chance(0.5) ? most : random.between(0, most);
    const asked = usedAt - age - random.between(0, cacheSeconds);
    const server = Math.floor(random.between(0, readers));
    const set = TokenKey.publishedAt(this.#seenBy(server, asked), this.#clockOf(server, asked));
    const kept = this.#kept.find((each) => each.key.id === key.id);
    // A taint is no failure, and before the first key there are no documents to keep.
    const isTainted = kept?.taintedFrom?.some((from) => from <= usedAt) ?? false;
    if (isTainted || set.length === 0 || set.some(({ id }) => id === key.id)) return;
    const facts = { usedAt, asked, key: key.schedule, set: set.map(({ schedule }) => schedule) };
    throw new Violation(`seed ${this.#seed}: a live token is refused: ${JSON.stringify(facts)}`);
  }
}
