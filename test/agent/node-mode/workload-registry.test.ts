import fc from "fast-check";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { WorkloadRegistry } from "../../../src/agent/node-mode/workload-registry.ts";
import type { SpiffeId } from "../../../src/pki/spiffe-id.ts";
import { workload } from "../../testkit/pki/certificates.ts";

const [a, b] = [workload("foo", "a"), workload("foo", "b")];
const linger = 60_000;

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] }));
afterEach(() => void vi.useRealTimers());

function createCensus() {
  const kept = new Set<SpiffeId>();
  const history: string[] = [];
  const census = new WorkloadRegistry({
    lingerMilliseconds: linger,
    keep: (spiffeId) => {
      if (!kept.has(spiffeId)) history.push(`keep ${spiffeId.at(-1)}`);
      kept.add(spiffeId);
    },
    drop: (spiffeId) => {
      history.push(`drop ${spiffeId.at(-1)}`);
      kept.delete(spiffeId);
    },
  });
  return { census, kept, history };
}

// Kmesh's reference counts: 2 and 1, then 1 and nothing, then nothing at all.
test("counts workloads by identity", () => {
  const { census } = createCensus();
  census.add({ uid: "1", spiffeId: a });
  census.add({ uid: "2", spiffeId: a });
  census.add({ uid: "3", spiffeId: b });
  expect([census.count(a), census.count(b)]).toEqual([2, 1]);
  census.remove("1");
  census.remove("3");
  expect([census.count(a), census.count(b)]).toEqual([1, 0]);
  census.remove("2");
  expect(census.count(a)).toBe(0);
});

test("keeps an identity for its first workload, and drops it some time after its last", () => {
  const { census, history } = createCensus();
  census.add({ uid: "1", spiffeId: a });
  census.add({ uid: "2", spiffeId: a });
  census.remove("1");
  census.remove("2");
  vi.advanceTimersByTime(linger - 1);
  expect(history).toEqual(["keep a"]);
  vi.advanceTimersByTime(1);
  expect(history).toEqual(["keep a", "drop a"]);
});

test("does not drop the identity of a pod that restarts", () => {
  const { census, history } = createCensus();
  census.add({ uid: "1", spiffeId: a });
  census.remove("1");
  vi.advanceTimersByTime(linger / 2);
  census.add({ uid: "2", spiffeId: a });
  vi.advanceTimersByTime(10 * linger);
  expect(history).toEqual(["keep a"]);
});

test("hears the same thing as often as it is said", () => {
  const { census } = createCensus();
  for (let i = 0; i < 3; i++) census.add({ uid: "1", spiffeId: a });
  expect(census.count(a)).toBe(1);
  for (let i = 0; i < 3; i++) census.remove("1");
  census.remove("never there");
  expect(census.count(a)).toBe(0);
});

test("follows a workload that changes its identity", () => {
  const { census } = createCensus();
  census.add({ uid: "1", spiffeId: a });
  census.add({ uid: "1", spiffeId: b });
  expect([census.count(a), census.count(b)]).toEqual([0, 1]);
});

test("has room for ten thousand workloads and no more", () => {
  const { census } = createCensus();
  for (let i = 0; i < 10_000; i++) expect(census.add({ uid: `${i}`, spiffeId: a })).toBe(true);
  expect(census.add({ uid: "one more", spiffeId: a })).toBe(false);
  expect(census.add({ uid: "1", spiffeId: b })).toBe(true);
});

test("keeps exactly the identities that have workloads, whatever the order of what it hears", () => {
  const step = fc.record({
    op: fc.constantFrom("add", "remove"),
    uid: fc.constantFrom("1", "2", "3"),
    spiffeId: fc.constantFrom(a, b),
  });
  fc.assert(
    fc.property(fc.array(step), (steps) => {
      const { census, kept } = createCensus();
      const workloads = new Map<string, SpiffeId>();
      for (const { op, uid, spiffeId } of steps) {
        if (op === "add") {
          census.add({ uid, spiffeId });
          workloads.set(uid, spiffeId);
        } else {
          census.remove(uid);
          workloads.delete(uid);
        }
      }
      for (const spiffeId of workloads.values()) expect(kept).toContain(spiffeId);
      vi.advanceTimersByTime(linger);
      expect(kept).toEqual(new Set(workloads.values()));
      census.close();
    }),
  );
});
