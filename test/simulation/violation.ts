/** A broken invariant, with the seed that broke it. */
export class Violation extends Error {
  override readonly name = "Violation";
}

/** The invariant that the history of a seed breaks, if there is one. */
export function violationIn(history: (seed: number) => void, seed: number): string | undefined {
  try {
    history(seed);
    return undefined;
  } catch (error) {
    if (error instanceof Violation) return error.message;
    throw error;
  }
}

/** The first violation in so many histories, if there is one. */
export function firstViolation(
  history: (seed: number) => void,
  from: number,
  count: number,
): string | undefined {
  for (let seed = from; seed < from + count; seed++) {
    const violation = violationIn(history, seed);
    if (violation !== undefined) return violation;
  }
  return undefined;
}
