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
 * What the port `AuthorityStore` promises, as far as one reader can see it.
 *
 * @param create A store that is empty.
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

    test("gives back what was put", async () => {
      expect(await loaded(await storeOf(record("a")))).toEqual([record("a")]);
    });

    test("gives back every record", async () => {
      const records = ["1", "2", "3", "a", "b", "c", "d"].map((digit) => record(digit));
      expect(await loaded(await storeOf(...records.toReversed()))).toEqual(records);
    });

    test("gives back as many records as any rotation leaves behind", async () => {
      const records = Array.from({ length: 64 }, (_, i) => record("0", `${i}`)).map((each, i) => ({
        ...each,
        id: i.toString(16).padStart(40, "0"),
      }));
      expect(await loaded(await storeOf(...records))).toEqual(records);
    });

    test("keeps a value to the letter", async () => {
      const value = `{"a":"\ufeffé\\u0000\u{1f511}"}\r\n ${"x".repeat(200_000)}\n`;
      expect(await loaded(await storeOf(record("a", value)))).toEqual([record("a", value)]);
    });

    test("keeps an empty value: what is there is there", async () => {
      expect(await loaded(await storeOf(record("a", "")))).toEqual([record("a", "")]);
    });

    test("takes the same record twice as once", async () => {
      expect(await loaded(await storeOf(record("a"), record("a")))).toEqual([record("a")]);
    });

    test("replaces a record by another of the same id", async () => {
      const store = await storeOf(record("a"), record("a", "sealed anew"));
      expect(await loaded(store)).toEqual([record("a", "sealed anew")]);
    });

    test("keeps what different kinds of record say of one authority", async () => {
      const records = recordKinds.map((kind) => ({ ...record("a", kind), kind }));
      const store = await storeOf(...records);
      const byKind = (a: StoredRecord, b: StoredRecord) => (a.kind < b.kind ? -1 : 1);
      expect((await store.load()).toSorted(byKind)).toEqual(records.toSorted(byKind));
      await store.delete(record("a"));
      expect((await store.load()).map(({ kind }) => kind).toSorted()).toEqual(["root", "taint"]);
    });

    test("loses what is deleted, and nothing else", async () => {
      const store = await storeOf(record("a"), record("b"));
      await store.delete(record("a"));
      expect(await loaded(store)).toEqual([record("b")]);
    });

    test("takes it in its stride when what is deleted is not there", async () => {
      const store = await storeOf(record("a"));
      await store.delete(record("b"));
      expect(await loaded(store)).toEqual([record("a")]);
    });

    test("gives copies: what a reader does to them changes nothing", async () => {
      const store = await storeOf(record("a"));
      ((await store.load()) as StoredRecord[]).length = 0;
      expect(await store.load()).toHaveLength(1);
    });
  });
}
