import { OperatorError } from "../../foundation/operator-error.ts";

/** So much of an id that it is no slip of an empty variable. */
const shortest = 4;

/** The one whose id begins so. @throws OperatorError when there is none, or another. */
export function findByIdPrefix<T extends { readonly id: string }>(
  candidates: readonly T[],
  beginning: string,
  what: string,
): T {
  if (beginning.length < shortest) {
    throw new OperatorError(`say at least the first ${shortest} characters of the ${what}'s id`);
  }
  const [found, another] = candidates.filter(({ id }) => id.startsWith(beginning));
  if (!found) throw new OperatorError(`no ${what}'s id begins with ${beginning}`);
  if (!another) return found;
  throw new OperatorError(`more than one ${what}'s id begins with ${beginning}: say more of it`);
}
