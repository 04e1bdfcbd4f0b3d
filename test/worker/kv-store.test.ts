import { reset } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, expect, test } from "vitest";
import { createKvStore } from "../../src/worker/kv-store.ts";
import { describeAuthorityStore } from "../contract/authority-store.ts";

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

test("does not look at what others keep in the namespace", async () => {
  await namespace().put("something", "x");
  await namespace().put("authorities", "x");
  await namespace().put("Authorities/ab", "x");
  await namespace().put("authorities/ab/cd", "x");
  await namespace().put("authorities/", "x");
  expect(await createKvStore(namespace()).load()).toEqual([]);
});

test("answers no part of a store with more records than any rotation leaves behind", async () => {
  const store = createKvStore(namespace());
  for (let i = 0; i < 501; i++) await store.put({ kind: "authority", id: `${i}`, value: "v" });
  await expect(store.load()).rejects.toThrow();
});

test("does not take a store of which nothing can be read for an empty one", async () => {
  const store = createKvStore({
    ...namespace(),
    list: async () => ({
      keys: [{ name: "authorities/ab" }],
      list_complete: true,
      cacheStatus: null,
    }),
    // KV answers null from the cache of a place that asked before the key was written.
    get: async (keys: string[]) => new Map(keys.map((key) => [key, null])),
  } as unknown as KVNamespace);
  await expect(store.load()).rejects.toThrow();
});

test("does not take a store whose authorities cannot be read yet for one without any", async () => {
  const store = createKvStore({
    ...namespace(),
    list: async () => ({
      keys: [{ name: "authorities/ab" }, { name: "roots/cd" }],
      list_complete: true,
      cacheStatus: null,
    }),
    // The root was there before; the authority is on its way.
    get: async (key: string) => (key === "roots/cd" ? "value" : null),
  } as unknown as KVNamespace);
  await expect(store.load()).rejects.toThrow();
});
