/**
 * The workloads by the instant at which each acts next, the earliest first. A workload has at most one
 * instant. Equal instants follow the numbers of their workloads, so that a run depends on its seed alone.
 *
 * This is a calendar queue: a ring of buckets, each a linked list in typed arrays. Adding and taking cost the
 * same with a thousand workloads and with a million.
 */
export class Calendar {
  readonly #bucketSeconds: number;
  readonly #mask: number;
  /** The first workload of each bucket, and the one after each workload; -1 ends a list. */
  readonly #first: Int32Array;
  readonly #after: Int32Array;
  readonly #at: Float64Array;
  /** The workloads of the open bucket, the latest first. */
  #open: number[] = [];
  #openBucket = -1;
  #size = 0;

  /**
   * @param bucketSeconds The span of a bucket. By default it is such that few buckets are empty.
   * @param buckets A power of two.
   */
  constructor(
    workloads: number,
    bucketSeconds: number = Math.max(0.01, 1000 / workloads),
    buckets: number = Math.min(1 << 20, 1 << Math.ceil(6 + Math.log2(workloads))),
  ) {
    if ((buckets & (buckets - 1)) !== 0) throw new RangeError("buckets must be a power of two");
    this.#bucketSeconds = bucketSeconds;
    this.#mask = buckets - 1;
    this.#first = new Int32Array(buckets).fill(-1);
    this.#after = new Int32Array(workloads).fill(-1);
    this.#at = new Float64Array(workloads);
  }

  get size(): number {
    return this.#size;
  }

  /** @param at Seconds, not before the instant that was taken last. */
  add(workload: number, at: number): void {
    const bucket = this.#bucketOf(at);
    this.#at[workload] = at;
    this.#size++;
    if (bucket <= this.#openBucket) {
      this.#insertIntoOpen(workload);
      return;
    }
    const slot = bucket & this.#mask;
    this.#after[workload] = this.#first[slot] ?? -1;
    this.#first[slot] = workload;
  }

  /** The earliest instant, or infinity if no workload waits. */
  get earliest(): number {
    if (this.#size === 0) return Number.POSITIVE_INFINITY;
    while (this.#open.length === 0) this.#openNext();
    return this.#at[this.#open.at(-1) ?? 0] ?? 0;
  }

  /** Takes the workload of the earliest instant. @throws RangeError if no workload waits. */
  take(): number {
    const workload = this.earliest === Number.POSITIVE_INFINITY ? undefined : this.#open.pop();
    if (workload === undefined) throw new RangeError("no workload waits");
    this.#size--;
    return workload;
  }

  #bucketOf(at: number): number {
    return Math.floor(at / this.#bucketSeconds);
  }

  /** Opens the next bucket. Workloads of a later turn of the ring stay in its list. */
  #openNext(): void {
    const bucket = ++this.#openBucket;
    const slot = bucket & this.#mask;
    let workload = this.#first[slot] ?? -1;
    let later = -1;
    while (workload >= 0) {
      const after = this.#after[workload] ?? -1;
      if (this.#bucketOf(this.#at[workload] ?? 0) <= bucket) this.#open.push(workload);
      else {
        this.#after[workload] = later;
        later = workload;
      }
      workload = after;
    }
    this.#first[slot] = later;
    this.#open.sort((a, b) => this.#compare(b, a));
  }

  #insertIntoOpen(workload: number): void {
    let low = 0;
    let high = this.#open.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#compare(this.#open[middle] ?? 0, workload) > 0) low = middle + 1;
      else high = middle;
    }
    this.#open.splice(low, 0, workload);
  }

  #compare(a: number, b: number): number {
    return (this.#at[a] ?? 0) - (this.#at[b] ?? 0) || a - b;
  }
}
