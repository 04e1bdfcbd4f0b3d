const slotMilliseconds = 300_000;
const slotsOfHour = 12;
const hours = 24;
const slots = hours * slotsOfHour;
const width = 3;

/** Three numbers of a while. */
export type Three = readonly [number, number, number];

/**
 * Three counts for each of some names over the last day, in memory that does not grow: a ring of five-minute
 * slots for each name, 3.4 kB each.
 */
export class DayCounts {
  readonly #maximum: number;
  readonly #rings = new Map<string, Uint32Array>();
  /** The number of the five minutes in each slot, counted from 1970. */
  readonly #numbers: Float64Array = new Float64Array(slots).fill(-1);

  /** @param maximum Of names: a configuration may change while a process runs. */
  constructor(maximum: number) {
    this.#maximum = maximum;
  }

  names(): readonly string[] {
    return [...this.#rings.keys()];
  }

  /** @param fields Which of the three rise by one. */
  add(name: string, fields: readonly (0 | 1 | 2)[], at: Date): void {
    const number = numberAt(at);
    const slot = number % slots;
    const known = this.#numbers[slot] ?? -1;
    if (known > number || (!this.#rings.has(name) && this.#rings.size >= this.#maximum)) return;
    if (known < number) {
      for (const ring of this.#rings.values()) ring.fill(0, slot * width, (slot + 1) * width);
      this.#numbers[slot] = number;
    }
    const ring = this.#rings.get(name) ?? new Uint32Array(slots * width);
    this.#rings.set(name, ring);
    for (const field of fields) ring[slot * width + field] = (ring[slot * width + field] ?? 0) + 1;
  }

  lastDay = (name: string, now: Date): Three => this.#sum(name, numberAt(now), slots);

  /** @param hoursAgo At which the hour ends. */
  hour = (name: string, now: Date, hoursAgo = 0): Three =>
    this.#sum(name, numberAt(now) - hoursAgo * slotsOfHour, slotsOfHour);

  #sum(name: string, last: number, length: number): Three {
    const ring = this.#rings.get(name);
    const total: [number, number, number] = [0, 0, 0];
    for (let number = Math.max(0, last - length + 1); number <= last; number++) {
      const slot = number % slots;
      if (!ring || this.#numbers[slot] !== number) continue;
      for (const field of [0, 1, 2] as const) total[field] += ring[slot * width + field] ?? 0;
    }
    return total;
  }
}

const numberAt = (instant: Date): number => Math.floor(instant.getTime() / slotMilliseconds);
