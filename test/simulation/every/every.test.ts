import { expect, test } from "vitest";
import { explore } from "./explorer.ts";
import { type SmallWorld, smallWorlds } from "./small-worlds.ts";

/** Enough to notice each planted fault of `src/pki/authority`. `npm run simulate every` visits all states. */
const sample = 700;

test.each(smallWorlds)(
  "keeps every invariant in the first states of a mesh $title",
  ({ bounds }: SmallWorld) => {
    const { violation, states } = explore(bounds, sample);
    expect(violation).toBeUndefined();
    expect(states).toBeGreaterThan(100);
  },
);
