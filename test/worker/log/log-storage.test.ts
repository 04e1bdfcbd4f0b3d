import { reset, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, test } from "vitest";
import { Hash } from "../../../src/tlog/merkle.ts";
import { type LogStage, StagedBatch } from "../../../src/tlog/sequencer/storage.ts";
import { sqlStage } from "../../../src/worker/log/log-storage.ts";

/** Runs work on a stage. @returns The rows that Cloudflare bills for it. */
async function billedRows(work: (stage: LogStage) => void): Promise<number> {
  await reset();
  return runInDurableObject(env.LOG_SHARD.getByName("rows"), (_, { storage }) => {
    const cursors: SqlStorageCursor<Record<string, SqlStorageValue>>[] = [];
    const sql = {
      exec: (query: string, ...bindings: unknown[]) => {
        const cursor = storage.sql.exec(query, ...bindings);
        cursors.push(cursor);
        return cursor;
      },
    };
    const counted = { sql, transactionSync: (act: () => void) => storage.transactionSync(act) };
    const stage = sqlStage(counted as unknown as DurableObjectStorage);
    cursors.length = 0;
    work(stage);
    return cursors.reduce((sum, { rowsWritten }) => sum + rowsWritten, 0);
  });
}

const entry = new Uint8Array(600);

function append(stage: LogStage, count: number): void {
  const entries = Array.from({ length: count }, () => entry);
  stage.append(StagedBatch.of(stage.end() ?? 0, entries, Hash.ofLeaf));
}

const publish = (stage: LogStage): void => {
  const size = stage.end() ?? 0;
  stage.save({ head: "signed" });
  stage.save({ head: "settled" }, Math.floor(size / 256) * 256);
};

test("an entry that comes alone costs a row, and next to nothing when it is published", async () => {
  const rows = await billedRows((stage) => {
    for (let i = 0; i < 1000; i++) append(stage, 1);
    publish(stage);
  });
  expect(rows).toBeLessThanOrEqual(1100);
});

test("entries that come together share a row", async () => {
  const rows = await billedRows((stage) => {
    for (let i = 0; i < 20; i++) append(stage, 64);
    publish(stage);
  });
  expect(rows).toBeLessThanOrEqual(0.1 * 20 * 64);
});

test("keeps the entries of the partial bundle as one batch", async () => {
  await billedRows((stage) => {
    for (let i = 0; i < 300; i++) append(stage, 1);
    publish(stage);
    const batches = stage.batches(0);
    expect(batches.map(({ first, count }) => [first, count])).toEqual([[256, 44]]);
    expect(stage.end()).toBe(300);
    const entries = Array.from({ length: 44 }, () => entry);
    expect(batches[0]).toEqual(StagedBatch.of(256, entries, Hash.ofLeaf));
  });
});

test("keeps a batch of which a part is published", async () => {
  await billedRows((stage) => {
    append(stage, 300);
    publish(stage);
    expect(stage.batches(0).map(({ first, count }) => [first, count])).toEqual([[0, 300]]);
  });
});

test("keeps more than a row may have in the rows in which it came", async () => {
  const long = new Uint8Array(60_000);
  await billedRows((stage) => {
    for (let i = 0; i < 20; i++) stage.append(StagedBatch.of(i, [long], Hash.ofLeaf));
    publish(stage);
    // The stage answers sixteen at a time.
    expect(stage.batches(0).map(({ count }) => count)).toEqual(Array(16).fill(1));
    expect(stage.batches(16)).toHaveLength(4);
    expect(stage.end()).toBe(20);
  });
});
