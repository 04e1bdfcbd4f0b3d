import type { Taint } from "../../src/pki/authority/taint.ts";
import type { PublishedAuthority } from "../../src/pki/authority/trust-bundle.ts";
import type { Random } from "./random.ts";

interface Written<T> {
  readonly record: T;
  readonly at: number;
  deletedAt: number;
}

/** Records of one kind in a store as eventually consistent as KV: each reading sees each write late. */
class LaggingRecords<T extends { readonly id: string }> {
  readonly #written: Written<T>[] = [];

  put(record: T, now: number): void {
    this.#written.push({ record, at: now, deletedAt: Number.POSITIVE_INFINITY });
  }

  delete(id: string, now: number): void {
    for (const written of this.#written) {
      if (written.record.id === id) written.deletedAt = Math.min(written.deletedAt, now);
    }
  }

  /** @param asOf The instant up to which writes are visible, called anew for each record. */
  read(asOf: () => number): T[] {
    return this.#written
      .filter(({ at, deletedAt }) => at <= asOf() && deletedAt > asOf())
      .map(({ record }) => record);
  }
}

/** One reading of the store. */
export interface Reading {
  readonly authorities: readonly PublishedAuthority[];
  readonly taints: readonly Taint[];
}

/** A store whose readers lag up to a bound, with another lag for each record. */
export class LaggingStore {
  readonly authorities: LaggingRecords<PublishedAuthority> = new LaggingRecords();
  readonly taints: LaggingRecords<Taint> = new LaggingRecords();
  readonly #random: Random;
  readonly #maximumLagSeconds: number;

  constructor(maximumLagSeconds: number, random: Random) {
    this.#maximumLagSeconds = maximumLagSeconds;
    this.#random = random;
  }

  /** The records by which one reader serves, or one run of the cron decides. */
  read(now: number): Reading {
    const asOf = (): number => now - this.#random.between(0, this.#maximumLagSeconds);
    return { authorities: this.authorities.read(asOf), taints: this.taints.read(asOf) };
  }
}
