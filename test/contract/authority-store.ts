import { describe, expect, test } from "vitest";
import {
  type AuthorityStore,
  recordKinds,
  type StoredRecord,
} from "../../src/custody/authority-store.ts";

const record = (digit: string, value = `value of ${digit}`): StoredRecord => ({
  kind: "authority",
  id: digit.repeat(40),
  value,
});

/**
 * The promises of the port `AuthorityStore` that a single reader can observe.
 *
 * @param create Makes an empty store.
 */
export function describeAuthorityStore(create: () => Promise<AuthorityStore>): void {
  const storeOf = async (...records: readonly StoredRecord[]) => {
    const store = await create();
    for (const each of records) await store.put(each);
    return store;
  };
  const loaded = async (store: AuthorityStore) =>
    (await store.load()).toSorted((a, b) => (a.id < b.id ? -1 : 1));

  describe("an authority store", () => {
    test("is empty at first", async () => {
      expect(await (await storeOf()).load()).toEqual([]);
    });

    test("returns a record that was put", async () => {
      expect(await loaded(await storeOf(record("a")))).toEqual([record("a")]);
    });

    test("returns every record", async () => {
      const records = ["1", "2", "3", "a", "b", "c", "d"].map((digit) => record(digit));
      expect(await loaded(await storeOf(...records.toReversed()))).toEqual(records);
    });

    test("returns as many records as any rotation leaves behind", async () => {
      const records = Array.from({ length: 64 }, (_, i) => record("0", `${i}`)).map((each, i) => ({
        ...each,
        id: i.toString(16).padStart(40, "0"),
      }));
      expect(await loaded(await storeOf(...records))).toEqual(records);
    });

    test("keeps a value unchanged", async () => {
      const value = `{"a":"\ufeffé\\u0000\u{1f511}"}\r\n ${"x".repeat(200_000)}\n`;
      expect(await loaded(await storeOf(record("a", value)))).toEqual([record("a", value)]);
    });

    test("keeps a record with an empty value", async () => {
      expect(await loaded(await storeOf(record("a", "")))).toEqual([record("a", "")]);
    });

    test("keeps one record when the same is put twice", async () => {
      expect(await loaded(await storeOf(record("a"), record("a")))).toEqual([record("a")]);
    });

    test("replaces a record by another of the same id", async () => {
      const store = await storeOf(record("a"), record("a", "sealed anew"));
      expect(await loaded(store)).toEqual([record("a", "sealed anew")]);
    });

    test("keeps records of different kinds for one authority", async () => {
      const records = recordKinds.map((kind) => ({ ...record("a", kind), kind }));
      const store = await storeOf(...records);
      const byKind = (a: StoredRecord, b: StoredRecord) => (a.kind < b.kind ? -1 : 1);
      expect((await store.load()).toSorted(byKind)).toEqual(records.toSorted(byKind));
      await store.delete(record("a"));
      const others = recordKinds.filter((kind) => kind !== "authority");
      expect((await store.load()).map(({ kind }) => kind).toSorted()).toEqual(others.toSorted());
    });

    test("deletes one record and no other", async () => {
      const store = await storeOf(record("a"), record("b"));
      await store.delete(record("a"));
      expect(await loaded(store)).toEqual([record("b")]);
    });

    test("does nothing when the record to delete is not there", async () => {
      const store = await storeOf(record("a"));
      await store.delete(record("b"));
      expect(await loaded(store)).toEqual([record("a")]);
    });

    test("returns a list that its reader may change", async () => {
      const store = await storeOf(record("a"));
      ((await store.load()) as StoredRecord[]).length = 0;
      expect(await store.load()).toHaveLength(1);
    });
  });
}
