import { OperatorError } from "../../../foundation/errors.ts";

/** Long enough that an empty shell variable is not taken for a prefix. */
const minimumLength = 4;

/** The one candidate whose id has this prefix. @throws OperatorError when none has, or more than one. */
export function findByIdPrefix<T extends { readonly id: string }>(
  candidates: readonly T[],
  prefix: string,
  what: string,
): T {
  if (prefix.length < minimumLength) {
    throw new OperatorError(
      `give at least the first ${minimumLength} characters of the ${what}'s id`,
    );
  }
  const [found, another] = candidates.filter(({ id }) => id.startsWith(prefix));
  if (!found) throw new OperatorError(`no ${what}'s id begins with ${prefix}`);
  if (!another) return found;
  throw new OperatorError(`more than one ${what}'s id begins with ${prefix}: give more characters`);
}
