/**
 * The workloads by the instant at which each acts next, the earliest first: a binary heap. A workload has at most one
 * instant. Equal instants follow the numbers of their workloads, so that a run depends on its seed alone.
 */
export class Calendar {
  readonly #heap: Int32Array;
  readonly #at: Float64Array;
  #size = 0;

  constructor(workloads: number) {
    this.#heap = new Int32Array(workloads);
    this.#at = new Float64Array(workloads);
  }

  /** The earliest instant, or infinity if no workload waits. */
  get earliest(): number {
    return this.#size === 0 ? Number.POSITIVE_INFINITY : (this.#at[this.#heap[0] ?? 0] ?? 0);
  }

  /** @param at In seconds. */
  add(workload: number, at: number): void {
    this.#at[workload] = at;
    let slot = this.#size++;
    for (let above = (slot - 1) >> 1; slot > 0; above = (slot - 1) >> 1) {
      const other = this.#heap[above] ?? 0;
      if (!this.#isBefore(workload, other)) break;
      this.#heap[slot] = other;
      slot = above;
    }
    this.#heap[slot] = workload;
  }

  /** Takes the workload of the earliest instant. */
  take(): number {
    const taken = this.#heap[0] ?? -1;
    const last = this.#heap[--this.#size] ?? -1;
    let slot = 0;
    for (let below = 1; below < this.#size; below = 2 * slot + 1) {
      const right = below + 1;
      const isRight =
        right < this.#size && this.#isBefore(this.#heap[right] ?? 0, this.#heap[below] ?? 0);
      const child = isRight ? right : below;
      const other = this.#heap[child] ?? 0;
      if (!this.#isBefore(other, last)) break;
      this.#heap[slot] = other;
      slot = child;
    }
    this.#heap[slot] = last;
    return taken;
  }

  #isBefore(a: number, b: number): boolean {
    const [one, other] = [this.#at[a] ?? 0, this.#at[b] ?? 0];
    return one < other || (one === other && a < b);
  }
}
