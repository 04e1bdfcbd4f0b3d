import { expect, test } from "vitest";
import { firstSeed } from "./first-seed.ts";
import { simulateReplicas } from "./replicated-store.ts";
import { firstViolation } from "./violation.ts";

const histories = 150;
/** A change breaks one of a few dozen histories. */
const mutilated = 3000;

type Change = Parameters<typeof simulateReplicas>[1];

test(`keeps every invariant in ${histories} histories of two replicas from seed ${firstSeed}`, () => {
  expect(firstViolation(simulateReplicas, firstSeed, histories)).toBeUndefined();
});

const changes: Readonly<Record<string, Change>> = {
  "a replica without the store serves on and on": (replication, propagationSeconds) => ({
    ...replication,
    surviveOutageSeconds: 20 * propagationSeconds,
  }),
  "a watch that is silent is trusted for several intervals": (replication, propagationSeconds) => ({
    ...replication,
    lagSeconds: 10 * propagationSeconds,
  }),
};

test.each(Object.entries(changes))("breaks an invariant where %s", (_, change) => {
  const history = (seed: number) => simulateReplicas(seed, change);
  expect(firstViolation(history, firstSeed, mutilated)).toBeDefined();
});
