import { expect, test } from "vitest";
import { firstSeed } from "../first-seed.ts";
import { firstViolation } from "../violation.ts";
import { type LeaseMutation, leaseViolation } from "./kek-lease.ts";
import { type ServiceMutation, simulateServiceRoot } from "./service-root.ts";

const histories = 100;

test(`a root in a key service keeps every invariant in ${histories} histories from seed ${firstSeed}`, () => {
  expect(firstViolation(simulateServiceRoot, firstSeed, histories)).toBeUndefined();
});

const mutilations: Readonly<Record<string, ServiceMutation>> = {
  "the wait for bundles that lack a new root": {
    schedule: (schedule) => ({ ...schedule, signsFrom: schedule.publishedFrom }),
  },
  "the phase in which an intermediate only verifies": {
    schedule: (schedule) => ({ ...schedule, retiresAt: schedule.signsUntil }),
  },
  "the renewal of the root": { isRenewed: () => false },
  "the months that a CRL lasts": { crlSeconds: (seconds) => seconds / 40 },
};

test.each(Object.entries(mutilations))("breaks an invariant without %s", (_, mutation) => {
  const history = (seed: number) => simulateServiceRoot(seed, mutation);
  expect(firstViolation(history, firstSeed, 500)).toBeDefined();
});

async function firstLeaseViolation(count: number, mutation?: LeaseMutation) {
  for (let seed = firstSeed; seed < firstSeed + count; seed++) {
    const violation = await leaseViolation(seed, mutation);
    if (violation !== undefined) return violation;
  }
  return undefined;
}

test(`a KEK on a lease keeps every invariant in ${histories} histories from seed ${firstSeed}`, async () => {
  expect(await firstLeaseViolation(histories)).toBeUndefined();
});

test.each([
  ["its end", 2],
  ["its whole length", 0.5],
])("a lease breaks an invariant without %s", async (_, factor) => {
  const mutation: LeaseMutation = (parts) => ({
    ...parts,
    leaseSeconds: factor * parts.leaseSeconds,
  });
  expect(await firstLeaseViolation(histories, mutation)).toBeDefined();
});
