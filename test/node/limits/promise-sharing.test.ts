import { expect, test } from "vitest";
import { sharePromises, waitBriefly } from "../../../src/node/limits/promise-sharing.ts";
import { describeSharedWork } from "../../contract/bounds/shared-work.ts";

describeSharedWork(sharePromises);

test("a brief wait gives work that needs the event loop its passes, however late the timers are", async () => {
  let passes = 0;
  const work = Promise.withResolvers<void>();
  let hasEnded = false;
  const late = async (): Promise<void> => {
    if (++passes === 15) {
      hasEnded = true;
      work.resolve();
    }
  };
  await waitBriefly(work.promise, late);
  expect(hasEnded).toBe(true);
});

test("a brief wait for work that hangs lasts half a second of timers", async () => {
  let waited = 0;
  const { promise: never } = Promise.withResolvers<void>();
  await waitBriefly(never, async (milliseconds) => {
    waited += milliseconds;
  });
  expect(waited).toBe(500);
});

test("a brief wait tells a failure of its work", async () => {
  await expect(waitBriefly(Promise.reject(new Error("down")))).rejects.toThrow("down");
});
