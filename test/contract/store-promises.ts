import assert from "node:assert/strict";
import {
  type AuthorityStore,
  RecordName,
  type StoredRecord,
} from "../../src/custody/authority-store.ts";

const record = (digit: string, value = `value of ${digit}`): StoredRecord => ({
  kind: "authority",
  id: digit.repeat(40),
  value,
});

async function fill(store: AuthorityStore, ...records: readonly StoredRecord[]): Promise<void> {
  for (const each of records) await store.put(each);
}

const loaded = async (store: AuthorityStore): Promise<readonly StoredRecord[]> =>
  (await store.load()).toSorted((a, b) => (a.id < b.id ? -1 : 1));

/** A promise of the port `AuthorityStore`, to check against an empty store. */
type StorePromise = (store: AuthorityStore) => Promise<void>;

/** The promises of the port `AuthorityStore` that a single reader can observe, by their names. */
export const storePromises: Readonly<Record<string, StorePromise>> = {
  "returns every record, and none at first": async (store) => {
    assert.deepEqual(await store.load(), []);
    const records = ["1", "2", "3", "a", "b", "c", "d"].map((digit) => record(digit));
    await fill(store, ...records.toReversed());
    assert.deepEqual(await loaded(store), records);
  },
  "returns as many records as any rotation leaves behind": async (store) => {
    const records = Array.from({ length: 32 }, (_, i) => record("0", `${i}`)).map((each, i) => ({
      ...each,
      id: i.toString(16).padStart(40, "0"),
    }));
    await fill(store, ...records);
    assert.deepEqual(await loaded(store), records);
  },
  "keeps a value unchanged, also an empty one": async (store) => {
    const value = `{"a":"\ufeffé\\u0000\u{1f511}"}\r\n ${"x".repeat(200_000)}\n`;
    await fill(store, record("a", value), record("b", ""));
    assert.deepEqual(await loaded(store), [record("a", value), record("b", "")]);
  },
  "replaces a record by the same, and by another of its id": async (store) => {
    await fill(store, record("a"), record("a"));
    assert.deepEqual(await loaded(store), [record("a")]);
    await fill(store, record("a", "sealed anew"));
    assert.deepEqual(await loaded(store), [record("a", "sealed anew")]);
  },
  "keeps records of different kinds for one authority": async (store) => {
    const records = RecordName.kinds.map((kind) => ({ ...record("a", kind), kind }));
    await fill(store, ...records);
    const byKind = (a: StoredRecord, b: StoredRecord) => (a.kind < b.kind ? -1 : 1);
    assert.deepEqual((await store.load()).toSorted(byKind), records.toSorted(byKind));
    await store.delete(record("a"));
    const others = RecordName.kinds.filter((kind) => kind !== "authority");
    const left = (await store.load()).map(({ kind }) => kind);
    assert.deepEqual(left.toSorted(), others.toSorted());
  },
  "deletes one record and no other, and does nothing when it is not there": async (store) => {
    await fill(store, record("a"), record("b"));
    for (const _ of [1, 2]) {
      await store.delete(record("a"));
      assert.deepEqual(await loaded(store), [record("b")]);
    }
  },
  "returns a list that its reader may change": async (store) => {
    await fill(store, record("a"));
    ((await store.load()) as StoredRecord[]).length = 0;
    assert.equal((await store.load()).length, 1);
  },
};
