import { describe, expect, test } from "vitest";
import { Semaphore, type WorkSharing } from "../../../src/foundation/shared-work.ts";
import { refusalOf } from "../../testkit/refusal.ts";
import { hangMilliseconds } from "../../testkit/time/hang-limit.ts";

/** Work that a test ends, and counts. */
function heldWork() {
  const ends: PromiseWithResolvers<void>[] = [];
  return {
    begun: () => ends.length,
    work: () => {
      const end = Promise.withResolvers<void>();
      ends.push(end);
      return end.promise;
    },
    end: () => ends.at(-1)?.resolve(),
    fail: (error: Error) => ends.at(-1)?.reject(error),
  };
}

/** The promises of every way to share work. */
export function describeSharedWork(sharing: WorkSharing): void {
  describe("shared work", () => {
    test("is done once for all who join meanwhile, and anew afterwards", async () => {
      const { join } = sharing(new Semaphore(1000), hangMilliseconds);
      const { work, begun, end } = heldWork();
      const all = Array.from({ length: 500 }, () => join(work));
      expect(begun()).toBe(1);
      end();
      await Promise.all(all);
      const again = join(work);
      expect(begun()).toBe(2);
      end();
      await again;
    });

    test("is awaited, and never begun, by a request without work of its own", async () => {
      const { join } = sharing(new Semaphore(1), hangMilliseconds);
      await join();
      const { work, begun, end } = heldWork();
      const done = join(work);
      const waits = join();
      end();
      await Promise.all([done, waits]);
      expect(begun()).toBe(1);
    });

    test("that fails tells the one who does it, and lets the others go on", async () => {
      const { join } = sharing(new Semaphore(10), hangMilliseconds);
      const { work, fail } = heldWork();
      const fault = new Error("failed");
      const done = join(work);
      const waits = [join(work), join()];
      fail(fault);
      await expect(done).rejects.toBe(fault);
      await Promise.all(waits);
    });

    test("refuses who finds no place to wait, and gives places back", async () => {
      const { join } = sharing(new Semaphore(2), hangMilliseconds);
      const { work, begun, end } = heldWork();
      for (let round = 1; round <= 3; round++) {
        const served = [join(work), join(work), join()];
        for (const refused of [() => join(work), () => join()]) {
          expect(await refusalOf(refused)).toEqual({ reason: "too-many-waiting" });
        }
        end();
        await Promise.all(served);
        expect(begun()).toBe(round);
      }
    });

    test("that takes too long counts as lost: who waited goes on, and the next one does it", async () => {
      const { join } = sharing(new Semaphore(1), 1);
      const lost = heldWork();
      void join(lost.work);
      await join();
      const { work, begun, end } = heldWork();
      const done = join(work);
      expect(begun()).toBe(1);
      // The lost work may end after all; what has taken its place is still under way.
      lost.end();
      const waits = join(work);
      end();
      await Promise.all([done, waits]);
      expect(begun()).toBe(1);
    });
  });
}
