/** Counts events by the second of virtual time. */
export class Meter {
  readonly #counts: Float64Array;
  /** Changes of a steady rate, which {@link spread} leaves behind. */
  readonly #steps: Float64Array;
  total = 0;

  constructor(seconds: number) {
    this.#counts = new Float64Array(Math.ceil(seconds) + 1);
    this.#steps = new Float64Array(Math.ceil(seconds) + 2);
  }

  count(at: number): void {
    const second = Math.floor(at);
    this.#counts[second] = (this.#counts[second] ?? 0) + 1;
    this.total++;
  }

  /** Counts so many events evenly between two instants. */
  spread(events: number, from: number, until: number): void {
    const first = Math.floor(from);
    const last = Math.max(first + 1, Math.floor(until));
    const rate = events / (last - first);
    this.#steps[first] = (this.#steps[first] ?? 0) + rate;
    this.#steps[last] = (this.#steps[last] ?? 0) - rate;
    this.total += events;
  }

  /** The events of each second. */
  perSecond(): Float64Array {
    let rate = 0;
    return this.#counts.map((count, second) => {
      rate += this.#steps[second] ?? 0;
      return count + Math.max(0, rate);
    });
  }
}

/** The largest of the values from one second on. */
export function peakOf(perSecond: Float64Array, from: number = 0): number {
  let peak = 0;
  for (const rate of perSecond.subarray(Math.max(0, Math.floor(from)))) {
    if (rate > peak) peak = rate;
  }
  return peak;
}

/** The means of successive parts of so many seconds each. */
export function meansOf(perSecond: Float64Array, seconds: number): number[] {
  const means: number[] = [];
  for (let from = 0; from < perSecond.length; from += seconds) {
    const part = perSecond.subarray(from, from + seconds);
    means.push(part.reduce((sum, rate) => sum + rate, 0) / part.length);
  }
  return means;
}
