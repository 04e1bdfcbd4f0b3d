import { expect, test } from "vitest";
import { explore } from "./explorer.ts";
import { type SmallWorld, smallWorlds } from "./small-worlds.ts";

/** `npm run simulate every` visits all of them. */
const sample = 400;

test.each(smallWorlds)(
  "keeps every invariant in the first states of a mesh $title",
  ({ bounds }: SmallWorld) => {
    const { violation, states } = explore(bounds, sample);
    expect(violation).toBeUndefined();
    expect(states).toBeGreaterThan(100);
  },
);
