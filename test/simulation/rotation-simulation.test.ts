import { expect, test } from "vitest";
import type { Schedule } from "../../src/pki/authority/schedule.ts";
import { addSeconds } from "../../src/pki/x509/validity.ts";
import { firstSeed } from "./first-seed.ts";
import { type Mutation, simulate } from "./mesh.ts";
import { firstViolation } from "./violation.ts";

/** `npm run simulate` lives through as many as one likes. */
const histories = 120;
/** The most histories in which a rule that is left out must show. */
const historiesWithout = 1000;

test(`keeps every invariant in ${histories} virtual histories from seed ${firstSeed}`, () => {
  expect(firstViolation(simulate, firstSeed, histories)).toBeUndefined();
});

const ofSchedule = (schedule: (schedule: Schedule) => Schedule): Mutation => ({ schedule });

const mutilations: Readonly<Record<string, Mutation>> = {
  "the phase in which an authority is only published": ofSchedule((schedule) => ({
    ...schedule,
    signsFrom: schedule.publishedFrom,
  })),
  "half of the phase in which an authority is only published": ofSchedule((schedule) => ({
    ...schedule,
    signsFrom: new Date((schedule.publishedFrom.getTime() + schedule.signsFrom.getTime()) / 2),
  })),
  "the phase in which an authority only verifies": ofSchedule((schedule) => ({
    ...schedule,
    retiresAt: schedule.signsUntil,
  })),
  "most of the phase in which an authority signs": ofSchedule((schedule) => ({
    ...schedule,
    signsUntil: addSeconds(schedule.signsFrom, 1),
  })),
  "the wait until every reader can see an authority": ofSchedule((schedule) => ({
    ...schedule,
    publishedFrom: addSeconds(schedule.publishedFrom, -1200),
  })),
  "the wait for the last leaf of a tainted authority": {
    taint: (taint) => ({ ...taint, retiresAt: taint.taintedAt }),
  },
};

/** Each of these shows in the first histories from here. One of them shows in 3 of 1,000, so that chance may miss it. */
const tellingSeed = 519;

test.each(Object.entries(mutilations))("breaks an invariant without %s", (_, mutation) => {
  const history = (seed: number) => simulate(seed, mutation);
  expect(firstViolation(history, tellingSeed, historiesWithout)).toBeDefined();
});

const movesIn = (seed: number, mutation?: Mutation) => simulate(seed, mutation, "istiod");

test("keeps every invariant while a mesh moves in with istiod's authority, which signs at once", () => {
  expect(firstViolation(movesIn, firstSeed, 60)).toBeUndefined();
});

test("breaks an invariant where istiod's root leaves as soon as another authority signs", () => {
  const hasty = ofSchedule((schedule) => ({ ...schedule, retiresAt: schedule.signsUntil }));
  const history = (seed: number) => movesIn(seed, hasty);
  expect(firstViolation(history, firstSeed, 100)).toBeDefined();
});
