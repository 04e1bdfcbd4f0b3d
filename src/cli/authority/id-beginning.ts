import { Obstacle } from "../terminal/obstacle.ts";

/** So much of an id that it is no slip of an empty variable. */
const shortest = 4;

/** The one whose id begins so. @throws Obstacle when there is none, or another. */
export function findByBeginning<T extends { readonly id: string }>(
  candidates: readonly T[],
  beginning: string,
  what: string,
): T {
  if (beginning.length < shortest) {
    throw new Obstacle(`say at least the first ${shortest} characters of the ${what}'s id`);
  }
  const [found, another] = candidates.filter(({ id }) => id.startsWith(beginning));
  if (!found) throw new Obstacle(`no ${what}'s id begins with ${beginning}`);
  if (!another) return found;
  throw new Obstacle(`more than one ${what}'s id begins with ${beginning}: say more of it`);
}
