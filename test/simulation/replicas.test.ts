import { expect, test } from "vitest";
import { Violation } from "./mesh.ts";
import { simulateReplicas } from "./replicated-store.ts";

const histories = 150;
/** A change breaks one of a few dozen histories. */
const mutilated = 3000;
const firstSeed = 1 + Math.floor(Math.random() * 1e9);

type Change = Parameters<typeof simulateReplicas>[1];

/** The first violation in so many histories, if there is one. */
function firstViolation(count: number, change?: Change): string | undefined {
  for (let seed = firstSeed; seed < firstSeed + count; seed++) {
    try {
      simulateReplicas(seed, change);
    } catch (error) {
      if (error instanceof Violation) return error.message;
      throw error;
    }
  }
  return undefined;
}

test(`keeps every invariant in ${histories} histories of two replicas from seed ${firstSeed}`, () => {
  expect(firstViolation(histories)).toBeUndefined();
});

test("breaks an invariant where a replica without the store serves on and on", () => {
  const change: Change = (replication, propagationSeconds) => ({
    ...replication,
    surviveOutageSeconds: 20 * propagationSeconds,
  });
  expect(firstViolation(mutilated, change)).toBeDefined();
});

test("breaks an invariant where a watch that is silent is trusted for several intervals", () => {
  const change: Change = (replication, propagationSeconds) => ({
    ...replication,
    lagSeconds: 10 * propagationSeconds,
  });
  expect(firstViolation(mutilated, change)).toBeDefined();
});
