import { reset } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, expect, test } from "vitest";
import { createKvStore, kvStores } from "../../../src/worker/kv-store.ts";
import { describeAuthorityStore } from "../../contract/authority-store.ts";

const namespace = () => env.AUTHORITIES;

describeAuthorityStore(async () => {
  await reset();
  return createKvStore(namespace());
});

beforeEach(() => reset());

test("keeps a record under a key of its own", async () => {
  await createKvStore(namespace()).put({ kind: "authority", id: "ab", value: "v" });
  const { keys } = await namespace().list();
  expect(keys.map(({ name }) => name)).toEqual(["authorities/ab"]);
});

test("keeps the records of signers apart", async () => {
  const { store, signerStore } = kvStores(namespace());
  const record = { kind: "authority", id: "ab", value: "of the team" } as const;
  await signerStore("team-a").put(record);
  expect(await signerStore("team-a").load()).toEqual([record]);
  // A name that begins the other, and one of the same length.
  for (const other of [store, signerStore("team"), signerStore("team-b")]) {
    expect(await other.load()).toEqual([]);
  }
});

test("ignores foreign keys in the namespace", async () => {
  await namespace().put("something", "x");
  await namespace().put("authorities", "x");
  await namespace().put("Authorities/ab", "x");
  await namespace().put("authorities/ab/cd", "x");
  await namespace().put("authorities/", "x");
  expect(await createKvStore(namespace()).load()).toEqual([]);
});

test("refuses a store with more records than any rotation leaves behind", async () => {
  const store = createKvStore(namespace());
  for (let i = 0; i < 500; i++) await store.put({ kind: "authority", id: `${i}`, value: "v" });
  expect(await store.load()).toHaveLength(500);
  await store.put({ kind: "authority", id: "500", value: "v" });
  await expect(store.load()).rejects.toThrow();
});

test("refuses a list that KV cuts off before a taint", async () => {
  const store = createKvStore(namespace());
  await store.put({ kind: "authority", id: "ab", value: "v" });
  const foreign = Array.from({ length: 1000 }, (_, i) => namespace().put(`foreign/${i}`, "x"));
  await Promise.all(foreign);
  await store.put({ kind: "taint", id: "ab-1-2", value: "v" });
  await expect(store.load()).rejects.toThrow("or 1000 keys in the store");
});

test.each([
  ["its only value has", ["authorities/ab"]],
  ["its authorities have, after its roots,", ["authorities/ab", "roots/cd"]],
])("refuses a store when %s yet to arrive", async (_, names) => {
  const store = createKvStore({
    ...namespace(),
    list: async () => ({
      keys: names.map((name) => ({ name })),
      list_complete: true,
      cacheStatus: null,
    }),
    // A place of KV that was asked before the key was written answers null from its cache.
    get: async (keys: string[]) =>
      new Map(keys.map((key) => [key, key === "roots/cd" ? "value" : null])),
  } as unknown as KVNamespace);
  await expect(store.load()).rejects.toThrow("no authority has a value yet");
});
