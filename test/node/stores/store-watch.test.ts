import { rename } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { FileStore } from "../../../src/node/files/file-store.ts";
import { WatchedStore } from "../../../src/node/stores/stores.ts";
import { createMemoryStore } from "../../testkit/ca/memory-store.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

const record = { kind: "taint", id: "ab".repeat(20), value: "{}" } as const;

test("a look finds that a folder takes no record, before any record is due, and that it does again", async () => {
  const folder = await temporaryFolder();
  const log = createEventRecorder();
  const store = new WatchedStore(await FileStore.open(folder), log);
  await store.poll();
  expect(store.fault()).toBeUndefined();
  await rename(join(folder, "authorities"), join(folder, "lost"));
  await store.poll();
  await store.poll();
  expect(store.fault()).toMatch(/^the store takes no record \(ENOENT\)$/);
  expect(log.operations.map(({ event }) => event)).toEqual([
    "store-not-writable",
    "store-not-writable",
  ]);
  await rename(join(folder, "lost"), join(folder, "authorities"));
  await store.poll();
  expect(store.fault()).toBeUndefined();
  expect(await store.load()).toEqual([]);
});

test("a store whose writes alone fail is reported at fault until a write succeeds", async () => {
  const memory = createMemoryStore();
  const log = createEventRecorder();
  let isFull = true;
  const put = async (...args: Parameters<typeof memory.put>) => {
    if (isFull) throw new Error("the bucket refuses");
    return memory.put(...args);
  };
  const store = new WatchedStore({ ...memory, put }, log);
  await expect(store.put(record)).rejects.toThrow("the bucket refuses");
  await store.poll();
  expect(store.fault()).toBe("the store takes no record (the bucket refuses)");
  expect(log.operations).toHaveLength(1);
  isFull = false;
  await store.put(record);
  await store.poll();
  expect([store.fault(), log.operations.length]).toEqual([undefined, 1]);
});
