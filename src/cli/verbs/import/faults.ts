import { OperatorError } from "../../../foundation/errors.ts";

/** @throws OperatorError with one line for each fault, if there is any. */
export function requireNoFaults(faults: readonly string[]): void {
  if (faults.length > 0) throw new OperatorError([...new Set(faults)].join("\n"));
}

/**
 * Runs all works even when one fails, so that the operator learns of all faults at once.
 *
 * @throws OperatorError with the lines of every failure.
 */
export function collectFaults<Results extends readonly unknown[]>(
  ...works: { readonly [I in keyof Results]: () => Results[I] }
): Results {
  const faults: string[] = [];
  const results = works.map((work) => {
    try {
      return work();
    } catch (error) {
      if (!(error instanceof OperatorError)) throw error;
      faults.push(error.message);
    }
    return undefined;
  });
  requireNoFaults(faults);
  return results as unknown as Results;
}

/** {@link collectFaults} of works that take time. */
export async function collectAllFaults<Results extends readonly unknown[]>(
  ...works: { readonly [I in keyof Results]: () => Promise<Results[I]> }
): Promise<Results> {
  const settled = await Promise.allSettled(works.map((work) => work()));
  const results = settled.map((each) => () => {
    if (each.status === "rejected") throw each.reason;
    return each.value;
  });
  return collectFaults(...results) as unknown as Results;
}
