import { expect, test } from "vitest";
import { simulateReplicas } from "./replicated-store.ts";
import { firstViolation } from "./violation.ts";

const histories = 150;
/** A change breaks one of a few dozen histories. */
const mutilated = 3000;
const firstSeed = 1 + Math.floor(Math.random() * 1e9);

type Change = Parameters<typeof simulateReplicas>[1];

test(`keeps every invariant in ${histories} histories of two replicas from seed ${firstSeed}`, () => {
  expect(firstViolation(simulateReplicas, firstSeed, histories)).toBeUndefined();
});

test("breaks an invariant where a replica without the store serves on and on", () => {
  const change: Change = (replication, propagationSeconds) => ({
    ...replication,
    surviveOutageSeconds: 20 * propagationSeconds,
  });
  const history = (seed: number) => simulateReplicas(seed, change);
  expect(firstViolation(history, firstSeed, mutilated)).toBeDefined();
});

test("breaks an invariant where a watch that is silent is trusted for several intervals", () => {
  const change: Change = (replication, propagationSeconds) => ({
    ...replication,
    lagSeconds: 10 * propagationSeconds,
  });
  const history = (seed: number) => simulateReplicas(seed, change);
  expect(firstViolation(history, firstSeed, mutilated)).toBeDefined();
});
