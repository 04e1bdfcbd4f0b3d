import type { SpiffeId } from "../../pki/spiffe-id.ts";
import type { Workload, WorkloadAudience } from "./workload.ts";

/** What the census decides. */
export interface CensusPorts {
  readonly keep: (spiffeId: SpiffeId) => void;
  readonly drop: (spiffeId: SpiffeId) => void;
  /** How long an identity outlives its last workload: a pod that restarts finds it still there. */
  readonly lingerMilliseconds: number;
}

/** No node runs so many pods; a feed gone mad does. */
const maximumWorkloads = 10_000;

/**
 * Counts the workloads of each identity. The first makes it kept; some time after the last has gone,
 * it is dropped.
 */
export class WorkloadRegistry implements WorkloadAudience {
  readonly #ports: CensusPorts;
  readonly #workloads = new Map<string, SpiffeId>();
  readonly #counts = new Map<SpiffeId, number>();
  readonly #leaving = new Map<SpiffeId, NodeJS.Timeout>();

  constructor(ports: CensusPorts) {
    this.#ports = ports;
  }

  /** How many workloads an identity has. */
  count(spiffeId: SpiffeId): number {
    return this.#counts.get(spiffeId) ?? 0;
  }

  add({ uid, spiffeId }: Workload): boolean {
    const before = this.#workloads.get(uid);
    if (before === spiffeId) return true;
    if (before === undefined && this.#workloads.size >= maximumWorkloads) return false;
    this.#workloads.set(uid, spiffeId);
    this.#arrive(spiffeId);
    if (before !== undefined) this.#leave(before);
    return true;
  }

  remove(uid: string): void {
    const spiffeId = this.#workloads.get(uid);
    if (spiffeId === undefined) return;
    this.#workloads.delete(uid);
    this.#leave(spiffeId);
  }

  replaceAll(workloads: readonly Workload[]): void {
    const present = new Set(workloads.map(({ uid }) => uid));
    for (const workload of workloads) this.add(workload);
    for (const uid of [...this.#workloads.keys()]) if (!present.has(uid)) this.remove(uid);
  }

  close(): void {
    for (const timer of this.#leaving.values()) clearTimeout(timer);
    this.#leaving.clear();
  }

  #arrive(spiffeId: SpiffeId): void {
    this.#counts.set(spiffeId, this.count(spiffeId) + 1);
    clearTimeout(this.#leaving.get(spiffeId));
    this.#leaving.delete(spiffeId);
    this.#ports.keep(spiffeId);
  }

  #leave(spiffeId: SpiffeId): void {
    const left = this.count(spiffeId) - 1;
    if (left > 0) this.#counts.set(spiffeId, left);
    else {
      this.#counts.delete(spiffeId);
      const drop = (): void => {
        this.#leaving.delete(spiffeId);
        this.#ports.drop(spiffeId);
      };
      this.#leaving.set(spiffeId, setTimeout(drop, this.#ports.lingerMilliseconds));
    }
  }
}
