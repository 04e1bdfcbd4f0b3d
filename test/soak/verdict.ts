/** The resources of a program at one instant. */
export interface Sample {
  /** Resident memory, MiB. */
  readonly memory: number;
  /** Live heap after a collection, MiB. */
  readonly heap: number;
  readonly descriptors: number;
  /** The handles that keep its event loop alive. */
  readonly resources: number;
  /** The most resident memory so far, MiB. */
  readonly peak: number;
  /** Whether no flood was under way, or had just ended. */
  readonly isQuiet: boolean;
}

/** A quantity that must be flat. */
type Quantity = Exclude<keyof Sample, "isQuiet" | "peak">;

/** How much a quantity may grow by itself, beside a fifth: what caches, pools and compiled code take. */
const allowances: Readonly<Record<Quantity, number>> = {
  memory: 16,
  heap: 4,
  descriptors: 20,
  resources: 20,
};

export const quantities = Object.keys(allowances) as readonly Quantity[];

/** The course of one quantity. */
export interface Trend {
  readonly quantity: Quantity;
  /** The median of the first third of the samples, and of the last. */
  readonly first: number;
  readonly last: number;
  readonly isFlat: boolean;
}

/** Compares the first and the last third of the quiet samples. Too few of them say nothing: no trend. */
export function trendsOf(samples: readonly Sample[]): Trend[] {
  const quiet = samples.filter(({ isQuiet }) => isQuiet);
  const third = Math.floor(quiet.length / 3);
  if (third === 0) return [];
  return quantities.map((quantity) => {
    const values = quiet.map((sample) => sample[quantity]);
    const [first, last] = [median(values.slice(0, third)), median(values.slice(-third))];
    return { quantity, first, last, isFlat: last <= 1.2 * first + allowances[quantity] };
  });
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}
