import { createHash } from "node:crypto";
import { Violation } from "../violation.ts";
import { Histories } from "./histories.ts";
import { keyOf } from "./key.ts";
import { type Bounds, type State, type World, worldWithin } from "./world.ts";

/** What a search has found. */
interface Exploration {
  readonly states: number;
  /** The steps from state to state, most of them to one that was known. */
  readonly steps: number;
  /** The ticks of the longest history before it comes to a known state. */
  readonly depth: number;
  /** The first violation, if there is one. */
  readonly violation: string | undefined;
  /** Whether every history was visited, or the limit came first. */
  readonly isWhole: boolean;
}

/** Visits every state that a small world may come to, each once. */
export function explore(
  bounds: Bounds,
  maximumStates: number = Number.POSITIVE_INFINITY,
): Exploration {
  const world = worldWithin(bounds);
  const histories = new Histories(bounds);
  const known = new Set<string>();
  let steps = 0;
  let depth = 0;
  let level = fresh(world, histories.beginnings(), known);
  while (level.length > 0 && known.size < maximumStates) {
    depth++;
    const following: State[] = [];
    for (const state of level) {
      try {
        const next = histories.next(state);
        steps += next.length;
        following.push(...fresh(world, next, known));
      } catch (error) {
        if (!(error instanceof Violation)) throw error;
        return { states: known.size, steps, depth, violation: error.message, isWhole: false };
      }
    }
    level = following;
  }
  return { states: known.size, steps, depth, violation: undefined, isWhole: level.length === 0 };
}

function fresh(world: World, states: readonly State[], known: Set<string>): State[] {
  return states.filter((state) => {
    const key = createHash("sha1").update(keyOf(world, state)).digest("base64");
    if (known.has(key)) return false;
    known.add(key);
    return true;
  });
}
