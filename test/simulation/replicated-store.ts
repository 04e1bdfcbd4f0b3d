import type { Taint } from "../../src/pki/authority/taint.ts";
import type { PublishedAuthority } from "../../src/pki/authority/trust-bundle.ts";
import { simulate } from "./mesh.ts";
import type { Random } from "./random.ts";
import { LaggingRecords, type Reading, type SimulatedStore } from "./store.ts";

/** How two replicas of `rampart serve` see their store. */
interface Replication {
  /** The longest time for which a watch that seems alive may be behind, in seconds. */
  readonly lagSeconds: number;
  /** How long a replica serves its last load while it cannot reach the store. */
  readonly surviveOutageSeconds: number;
}

/** The replication that a propagation interval allows: what is served was written no longer ago. */
const replicationOf = (propagationSeconds: number): Replication => {
  const lagSeconds = Math.min(15, propagationSeconds / 5);
  return { lagSeconds, surviveOutageSeconds: propagationSeconds - lagSeconds };
};

interface Replica {
  /** The state of the store that its last load shows, and the time of that load. */
  asOf: number;
  loadedAt: number;
  /** When it loses the store next, and until when. */
  partition: readonly [number, number];
}

/**
 * A store that two replicas share. Each sees its records in the order of the writes, a little late, as by a
 * watch. Each loses the store at times, serves what it has loaded for a while, and then refuses. One at a time
 * rotates, and sees all writes, unless the lease fails.
 */
class ReplicatedStore implements SimulatedStore {
  readonly authorities: LaggingRecords<PublishedAuthority> = new LaggingRecords();
  readonly taints: LaggingRecords<Taint> = new LaggingRecords();
  readonly #replication: Replication;
  readonly #random: Random;
  readonly #replicas: readonly Replica[];
  readonly #propagationSeconds: number;

  constructor(replication: Replication, propagationSeconds: number, random: Random) {
    this.#replication = replication;
    this.#random = random;
    this.#propagationSeconds = propagationSeconds;
    this.#replicas = [0, 1].map(() => ({
      asOf: 0,
      loadedAt: 0,
      partition: this.#partitionAfter(0),
    }));
  }

  /** The answer of one of the replicas: where one refuses, the client's next attempt may reach the other. */
  read(now: number): Reading | undefined {
    const [first, second] = this.#random.chance(0.5) ? [0, 1] : [1, 0];
    return this.#readBy(this.#replicas[first], now) ?? this.#readBy(this.#replicas[second], now);
  }

  readInTurn(now: number): Reading {
    // Two turns at once: the holder slept, or its clock is wrong.
    const lag = this.#random.chance(0.05) ? this.#random.between(0, this.#propagationSeconds) : 0;
    return this.#readAsOf(now - lag);
  }

  #readBy(replica: Replica | undefined, now: number): Reading | undefined {
    if (!replica) return undefined;
    if (now >= replica.partition[1]) replica.partition = this.#partitionAfter(now);
    const isAway = now >= replica.partition[0];
    const { lagSeconds, surviveOutageSeconds } = this.#replication;
    if (!isAway) {
      replica.asOf = Math.max(replica.asOf, now - this.#random.between(0, lagSeconds));
      replica.loadedAt = now;
    } else if (replica.loadedAt < replica.partition[0]) {
      // It has loaded without a call, every few seconds.
      replica.asOf = Math.max(replica.asOf, replica.partition[0] - lagSeconds);
      replica.loadedAt = replica.partition[0];
    }
    if (now > replica.loadedAt + surviveOutageSeconds) return undefined;
    return this.#readAsOf(replica.asOf);
  }

  #partitionAfter(now: number): readonly [number, number] {
    const random = this.#random;
    const begins = now + this.#propagationSeconds * random.between(0, 40);
    return [begins, begins + this.#propagationSeconds * random.between(0, 20)];
  }

  #readAsOf(instant: number): Reading {
    const asOf = (): number => instant;
    return { authorities: this.authorities.read(asOf), taints: this.taints.read(asOf) };
  }
}

/** Simulates one history of a mesh whose CA has two replicas. @throws Violation */
export function simulateReplicas(
  seed: number,
  change: (replication: Replication, propagationSeconds: number) => Replication = (as) => as,
): void {
  simulate(seed, {}, (propagationSeconds, random) => {
    const replication = change(replicationOf(propagationSeconds), propagationSeconds);
    return new ReplicatedStore(replication, propagationSeconds, random);
  });
}
