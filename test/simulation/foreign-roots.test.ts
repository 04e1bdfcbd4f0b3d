import { expect, test } from "vitest";
import { type ForeignMutation, simulateForeignRoots } from "./foreign-mesh.ts";
import { Violation } from "./mesh.ts";

const histories = 300;
const firstSeed = 1 + Math.floor(Math.random() * 1e9);

/** The first violation in this many histories, if there is one. */
function firstViolation(mutation?: ForeignMutation): string | undefined {
  for (let seed = firstSeed; seed < firstSeed + histories; seed++) {
    try {
      simulateForeignRoots(seed, mutation);
    } catch (error) {
      if (error instanceof Violation) return error.message;
      throw error;
    }
  }
  return undefined;
}

test(`keeps every invariant in ${histories} histories under foreign roots from seed ${firstSeed}`, () => {
  expect(firstViolation()).toBeUndefined();
});

const mutilations: Readonly<Record<string, ForeignMutation>> = {
  "the wait for bundles that lack a new root": {
    schedule: (schedule) => ({ ...schedule, signsFrom: schedule.publishedFrom }),
  },
  "looking since when the bundle has the root": {
    installation: (installation) => ({ ...installation, rootSince: new Date(0) }),
  },
  "the phase in which an intermediate only verifies": {
    schedule: (schedule) => ({ ...schedule, retiresAt: schedule.signsUntil }),
  },
  "the end of signing before the certificate's own end": {
    schedule: (schedule) => ({ ...schedule, signsUntil: schedule.retiresAt }),
  },
};

test.each(Object.entries(mutilations))("breaks an invariant without %s", (_, mutation) => {
  expect(firstViolation(mutation)).toBeDefined();
});
