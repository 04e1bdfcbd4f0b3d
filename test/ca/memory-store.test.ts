import { expect, test } from "vitest";
import { describeAuthorityStore } from "../contract/authority-store.ts";
import { createMemoryStore } from "../testkit/ca/memory-store.ts";

describeAuthorityStore(async () => createMemoryStore());

test("a memory store that is down answers nothing and takes nothing", async () => {
  const store = createMemoryStore({ kind: "authority", id: "a", value: "1" });
  store.outage = new Error("down");
  await expect(store.load()).rejects.toBe(store.outage);
  await expect(store.put({ kind: "taint", id: "b", value: "2" })).rejects.toBe(store.outage);
  store.outage = undefined;
  expect(await store.load()).toEqual([{ kind: "authority", id: "a", value: "1" }]);
});
