import { explore } from "./explorer.ts";
import type { Bounds } from "./world.ts";

/** A small world with a name. */
export interface SmallWorld {
  readonly title: string;
  readonly bounds: Bounds;
}

const usual: Bounds = {
  authorityRoot: "self",
  beginning: "founded",
  propagation: 2,
  leaf: 3,
  signing: 11,
  skew: 0,
  doubles: 0,
  turns: 0,
  taints: 0,
  imports: 0,
  restores: 0,
  lines: 0,
  keys: 0,
};
/** Clocks that differ need more ticks in a propagation interval. */
const skewed = { propagation: 4, leaf: 4, signing: 20, skew: 1 };

/** A taint beside other records has an end in a mesh that turns faster. */
const fast = { propagation: 1, leaf: 1 };

const upstream = { authorityRoot: "upstream" } as const;

/** Together they have all that may happen, each with what it meets at the same time. */
export const smallWorlds: readonly SmallWorld[] = [
  { title: "whose cron runs twice", bounds: { ...usual, doubles: 1 } },
  { title: "that two runs found", bounds: { ...usual, beginning: "founded twice", doubles: 1 } },
  {
    title: "that is joined by a signer",
    bounds: { ...usual, beginning: "joining", leaf: 5, signing: 13 },
  },
  { title: "that is adopted", bounds: { ...usual, beginning: "adopted" } },
  { title: "whose clocks differ", bounds: { ...usual, ...skewed } },
  { title: "with a taint", bounds: { ...usual, taints: 1 } },
  { title: "with a taint, whose clocks differ", bounds: { ...usual, ...skewed, taints: 1 } },
  { title: "with another root, which leaves again", bounds: { ...usual, imports: 1 } },
  { title: "with a configured taint", bounds: { ...usual, lines: 1 } },
  {
    title: "with a configured taint, and a root that comes and leaves",
    bounds: { ...usual, ...fast, signing: 5, lines: 1, imports: 1 },
  },
  {
    title: "with a configured taint, and keys for tokens that come and go",
    bounds: { ...usual, ...fast, signing: 5, lines: 1, keys: 2 },
  },
  {
    title: "with a configured taint, and a key for tokens that readers may lack",
    bounds: { ...usual, leaf: 1, signing: 7, lines: 1, keys: 1 },
  },
  { title: "that is restored", bounds: { ...usual, restores: 1 } },
  { title: "under a CA upstream that keeps its root", bounds: { ...usual, ...upstream } },
  {
    title: "under a CA upstream, that two runs found",
    bounds: { ...usual, ...upstream, signing: 6, beginning: "founded twice" },
  },
  {
    title: "under a CA upstream, whose clocks differ",
    bounds: { ...usual, ...skewed, ...upstream, signing: 6 },
  },
  {
    title: "under a CA upstream that turns to another root, whose clocks differ",
    bounds: { ...usual, ...skewed, ...upstream, signing: 6, turns: 1 },
  },
];

/** Visits every state of every small world, and prints how many there are. @returns The violations. */
export function exploreAll(maximumStates: number): readonly string[] {
  return smallWorlds.flatMap(({ title, bounds }) => {
    const begun = performance.now();
    const { states, steps, depth, violation, isWhole } = explore(bounds, maximumStates);
    const seconds = ((performance.now() - begun) / 1000).toFixed(1);
    const whole = isWhole ? "every state" : "the first states";
    console.log(
      `${title}: ${whole}, ${states} in ${steps} steps, ${depth} ticks deep, ${seconds} s`,
    );
    if (violation !== undefined) console.log(`  ${violation}`);
    return violation === undefined ? [] : [`${title}: ${violation}`];
  });
}
