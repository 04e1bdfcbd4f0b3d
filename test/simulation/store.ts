import type { ScheduledAuthority } from "../../src/pki/rotation.ts";
import type { Random } from "./random.ts";

interface Written {
  readonly authority: ScheduledAuthority;
  readonly at: number;
  deletedAt: number;
}

/** A store as eventually consistent as KV: each reading sees each write late by up to the bound. */
export class LaggingStore {
  readonly #written: Written[] = [];
  readonly #random: Random;
  readonly #maximumLagSeconds: number;

  constructor(maximumLagSeconds: number, random: Random) {
    this.#maximumLagSeconds = maximumLagSeconds;
    this.#random = random;
  }

  put(authority: ScheduledAuthority, now: number): void {
    this.#written.push({ authority, at: now, deletedAt: Number.POSITIVE_INFINITY });
  }

  delete(id: string, now: number): void {
    for (const written of this.#written) {
      if (written.authority.id === id) written.deletedAt = Math.min(written.deletedAt, now);
    }
  }

  read(now: number): ScheduledAuthority[] {
    return this.#written
      .filter(({ at, deletedAt }) => at <= this.#asOf(now) && deletedAt > this.#asOf(now))
      .map(({ authority }) => authority);
  }

  #asOf(now: number): number {
    return now - this.#random.between(0, this.#maximumLagSeconds);
  }
}
