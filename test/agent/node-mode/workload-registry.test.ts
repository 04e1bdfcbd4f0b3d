import fc from "fast-check";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { WorkloadRegistry } from "../../../src/agent/node-mode/workload-registry.ts";
import type { SpiffeId } from "../../../src/pki/spiffe-id.ts";
import { workload } from "../../testkit/pki/certificates.ts";

const [a, b] = [workload("foo", "a"), workload("foo", "b")];
const linger = 60_000;

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] }));
afterEach(() => void vi.useRealTimers());

function createRegistry() {
  const identities = new Set<SpiffeId>();
  const history: string[] = [];
  const registry = new WorkloadRegistry({
    lingerMilliseconds: linger,
    addIdentity: (spiffeId) => {
      if (!identities.has(spiffeId)) history.push(`add ${spiffeId.at(-1)}`);
      identities.add(spiffeId);
    },
    removeIdentity: (spiffeId) => {
      history.push(`remove ${spiffeId.at(-1)}`);
      identities.delete(spiffeId);
    },
  });
  return { registry, identities, history };
}

test("adds an identity with its first workload, and removes it some time after its last", () => {
  const { registry, history } = createRegistry();
  registry.add({ uid: "1", spiffeId: a });
  registry.add({ uid: "2", spiffeId: a });
  registry.remove("1");
  registry.remove("2");
  vi.advanceTimersByTime(linger - 1);
  expect(history).toEqual(["add a"]);
  vi.advanceTimersByTime(1);
  expect(history).toEqual(["add a", "remove a"]);
});

test("takes ten thousand workloads and no more", () => {
  const { registry } = createRegistry();
  for (let i = 0; i < 10_000; i++) expect(registry.add({ uid: `${i}`, spiffeId: a })).toBe(true);
  expect(registry.add({ uid: "one more", spiffeId: a })).toBe(false);
  expect(registry.add({ uid: "1", spiffeId: b })).toBe(true);
});

const numbered = (first: number, count: number) =>
  Array.from({ length: count }, (_, i) => ({ uid: `${first + i}`, spiffeId: a }));

test("replaces ten thousand workloads by ten thousand others", () => {
  const { registry, history } = createRegistry();
  expect(registry.replaceAll(numbered(0, 10_000))).toBe(true);
  expect(registry.replaceAll(numbered(10_000, 10_000))).toBe(true);
  expect(registry.count(a)).toBe(10_000);
  expect(registry.list()).toEqual(numbered(10_000, 10_000));
  vi.advanceTimersByTime(10 * linger);
  expect(history).toEqual(["add a"]);
});

test("changes nothing for a list that is too long", () => {
  const { registry } = createRegistry();
  registry.add({ uid: "own", spiffeId: b });
  expect(registry.replaceAll(numbered(0, 10_001))).toBe(false);
  expect(registry.list()).toEqual([{ uid: "own", spiffeId: b }]);
});

test("has exactly the identities that have workloads, whatever the order of changes", () => {
  const step = fc.record({
    op: fc.constantFrom("add", "remove"),
    uid: fc.constantFrom("1", "2", "3"),
    spiffeId: fc.constantFrom(a, b),
  });
  fc.assert(
    fc.property(fc.array(step), (steps) => {
      const { registry, identities } = createRegistry();
      const workloads = new Map<string, SpiffeId>();
      for (const { op, uid, spiffeId } of steps) {
        if (op === "add") {
          registry.add({ uid, spiffeId });
          workloads.set(uid, spiffeId);
        } else {
          registry.remove(uid);
          workloads.delete(uid);
        }
      }
      for (const spiffeId of workloads.values()) expect(identities).toContain(spiffeId);
      vi.advanceTimersByTime(linger);
      expect(identities).toEqual(new Set(workloads.values()));
      registry.close();
    }),
  );
});
