import { OperatorError } from "../../foundation/operator-error.ts";

/** @throws OperatorError of one line for each fault; nothing for none. */
export function refuse(faults: readonly string[]): void {
  if (faults.length > 0) throw new OperatorError([...new Set(faults)].join("\n"));
}

/**
 * Does every piece of work, however many of them fail, so that the operator learns of all faults at once.
 *
 * @throws OperatorError with the lines of every one.
 */
export function all<Results extends readonly unknown[]>(
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
  refuse(faults);
  return results as unknown as Results;
}
