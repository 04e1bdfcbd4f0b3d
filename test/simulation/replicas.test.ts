import { expect, test } from "vitest";
import { Violation } from "./mesh.ts";
import { simulateReplicas } from "./replicated-store.ts";

const histories = 150;
const firstSeed = 1 + Math.floor(Math.random() * 1e9);

/** The first violation in this many histories, if there is one. */
function firstViolation(change?: Parameters<typeof simulateReplicas>[1]): string | undefined {
  for (let seed = firstSeed; seed < firstSeed + histories; seed++) {
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
  expect(firstViolation()).toBeUndefined();
});

test("breaks an invariant where a replica without the store serves on and on", () => {
  const change: Parameters<typeof simulateReplicas>[1] = (replication, propagationSeconds) => ({
    ...replication,
    surviveOutageSeconds: 10 * propagationSeconds,
  });
  expect(firstViolation(change)).toBeDefined();
});

test("breaks an invariant where a watch that is silent is trusted for several intervals", () => {
  const change: Parameters<typeof simulateReplicas>[1] = (replication, propagationSeconds) => ({
    ...replication,
    lagSeconds: 10 * propagationSeconds,
  });
  expect(firstViolation(change)).toBeDefined();
});
