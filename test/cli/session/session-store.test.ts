import * as fc from "fast-check";
import { expect, test } from "vitest";
import { createSessionStore } from "../../../src/cli/session/session.ts";
import {
  type AuthorityStore,
  RecordName,
  type StoredRecord,
} from "../../../src/custody/authority-store.ts";
import { createMemoryStore } from "../../testkit/ca/memory-store.ts";

const record = (id: string, value = "{}"): StoredRecord => ({ kind: "authority", id, value });

test("a session reads its own writes even while the store still answers with older records", async () => {
  const store = createMemoryStore(record("a", "old"));
  const stale: AuthorityStore = { ...store, load: async () => [record("a", "old"), record("b")] };
  const session = createSessionStore(stale, false);
  await session.put(record("a", "new"));
  await session.delete(record("b"));
  expect(await session.load()).toEqual([record("a", "new")]);
  expect([...store.records]).toEqual([["authority/a", "new"]]);
});

test("records with the same id and another kind are distinct", async () => {
  const taint: StoredRecord = { kind: "taint", id: "a", value: "{}" };
  const session = createSessionStore(createMemoryStore(record("a")), false);
  await session.put(taint);
  await session.delete(record("a"));
  expect(await session.load()).toEqual([taint]);
});

test("a session reads the store once", async () => {
  const store = createMemoryStore(record("a"));
  const session = createSessionStore(store, false);
  await session.load();
  await session.put(record("b"));
  await session.load();
  expect(store.loads).toBe(1);
});

test("a session does not read a record that it could not write", async () => {
  const store = createMemoryStore();
  const session = createSessionStore(store, false);
  expect(await session.load()).toEqual([]);
  store.outage = new Error("full");
  await expect(session.put(record("a"))).rejects.toThrow("full");
  await expect(session.delete(record("a"))).rejects.toThrow("full");
  expect(await session.load()).toEqual([]);
  expect(session.changes).toEqual([]);
});

test("a session does not read a record that another writer came before", async () => {
  const store = { ...createMemoryStore(record("a", "other")), put: async () => false };
  const session = createSessionStore(store, false);
  expect(await session.put(record("a", "new"), "old")).toBe(false);
  expect(await session.load()).toEqual([record("a", "other")]);
  expect(session.changes).toEqual([]);
});

const step = fc.record({
  act: fc.constantFrom("put" as const, "delete" as const),
  kind: fc.constantFrom(...RecordName.kinds),
  id: fc.constantFrom("a", "b", "c"),
  value: fc.string(),
});

test("a dry session reads what a writing session leaves in the store", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step), fc.array(step), async (before, steps) => {
      const [written, untouched] = [createMemoryStore(...before), createMemoryStore(...before)];
      const [wet, dry] = [createSessionStore(written, false), createSessionStore(untouched, true)];
      for (const session of [wet, dry]) {
        for (const { act, ...stored } of steps) await session[act](stored);
      }
      const sorted = async (store: AuthorityStore) =>
        (await store.load()).map((each) => JSON.stringify(each)).toSorted();
      expect(await sorted(dry)).toEqual(await sorted(wet));
      expect(
        new Map((await dry.load()).map((each) => [`${each.kind}/${each.id}`, each.value])),
      ).toEqual(written.records);
      expect(dry.changes).toEqual(wet.changes);
      expect(untouched.records).toEqual(createMemoryStore(...before).records);
    }),
    { numRuns: 100 },
  );
});
