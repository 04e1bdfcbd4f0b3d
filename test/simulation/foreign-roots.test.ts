import { expect, test } from "vitest";
import { firstSeed } from "./first-seed.ts";
import { type ForeignMutation, simulateForeignRoots } from "./foreign-mesh.ts";
import { firstViolation } from "./violation.ts";

const histories = 300;

test(`keeps every invariant in ${histories} histories under foreign roots from seed ${firstSeed}`, () => {
  expect(firstViolation(simulateForeignRoots, firstSeed, histories)).toBeUndefined();
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
  const history = (seed: number) => simulateForeignRoots(seed, mutation);
  expect(firstViolation(history, firstSeed, histories)).toBeDefined();
});
