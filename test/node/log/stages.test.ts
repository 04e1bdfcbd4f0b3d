import { join, relative } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { fileObjects, openSqliteStage } from "../../../src/node/log/log-storage.ts";
import { hashEntry } from "../../../src/node/log/node-log.ts";
import { ObjectStage, Overtaken, publishedObjects } from "../../../src/node/log/object-stage.ts";
import { StagedBatch } from "../../../src/tlog/sequencer/storage.ts";
import { Tile } from "../../../src/tlog/tile.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";
import { MemoryBucket } from "../../testkit/tlog/memory-bucket.ts";

const octetsOf = (text: string) => new TextEncoder().encode(text) as Uint8Array<ArrayBuffer>;
const means = { hashEntry, pause: async () => {} };

test("a checkpoint takes the place of the one alone that was read with its stage", async () => {
  const objects = new MemoryBucket().process();
  const open = async () => {
    const published = publishedObjects(objects, await ObjectStage.read(objects, means));
    await published.read(Tile.checkpointPath);
    return published;
  };
  const [slow, other] = [await open(), await open()];
  await other.replace(Tile.checkpointPath, octetsOf("newer"));
  await expect(slow.replace(Tile.checkpointPath, octetsOf("older"))).rejects.toThrow(Overtaken);
  expect((await objects.read(Tile.checkpointPath))?.octets).toEqual(octetsOf("newer"));
  await slow.replace(Tile.checkpointPath, octetsOf("newer"));
});

test("entries stay in the stage while their bundle is there with other octets", async () => {
  const objects = new MemoryBucket().process();
  const entries = (word: string) => Array.from({ length: 256 }, (_, i) => octetsOf(`${word} ${i}`));
  const path = Tile.path({ level: "entries", index: 0, width: Tile.fullWidth });
  await objects.write(path, Tile.formatBundle(entries("another")), undefined);
  const stage = await ObjectStage.read(objects, means);
  stage.save({ key: "k", head: "h" });
  stage.append(StagedBatch.of(0, entries("own"), hashEntry));
  await stage.commit();
  // The bundle is written behind the answer.
  for (let i = 0; i < 20; i++) await new Promise(setImmediate);
  stage.append(StagedBatch.of(256, [octetsOf("next")], hashEntry));
  await stage.commit();
  const again = await ObjectStage.read(objects, means);
  expect(again.batches(0).flatMap(StagedBatch.entries)).toEqual([
    ...entries("own"),
    octetsOf("next"),
  ]);
  expect(again.hasBundle(path)).toBe(false);
});

test("a stage is read as it was written, whichever batches it has lost since the last write", async () => {
  const objects = new MemoryBucket().process();
  const stage = await ObjectStage.read(objects, means);
  let [end, published] = [0, 0];
  for (let i = 0; i < 60; i++) {
    const entries = Array.from({ length: 1 + ((i * 7) % 40) }, (_, n) => octetsOf(`${end + n}`));
    stage.append(StagedBatch.of(end, entries, hashEntry));
    end += entries.length;
    if (i % 13 === 12) published = end - (end % Tile.fullWidth);
    stage.save({ key: "k", head: "–".repeat((i * 31) % 50) }, published);
    await stage.commit();
    const again = await ObjectStage.read(objects, means);
    expect(again.texts()).toEqual(stage.texts());
    expect(again.end()).toBe(end);
    expect(again.size).toBeGreaterThanOrEqual(end - published);
    const read = again.batches(0).flatMap(StagedBatch.entries);
    expect(read).toEqual(read.map((_, n) => octetsOf(`${end - again.size + n}`)));
    expect(read).toHaveLength(again.size);
  }
});

const batch = (first: number, count: number) => ({ first, count, octets: Uint8Array.of(first) });

async function openStage() {
  const stage = openSqliteStage(join(await temporaryFolder(), "stage.sqlite"));
  onTestFinished(() => stage.close());
  return stage;
}

test("a save that fails changes nothing, and the next one counts", async () => {
  const stage = await openStage();
  stage.save({ key: "k", head: "h" });
  stage.append(batch(0, 3));
  expect(() => stage.save({ key: "other", head: {} as string }, 3)).toThrow();
  expect(stage.texts()).toMatchObject({ key: "k", head: "h" });
  expect(stage.end()).toBe(3);
  stage.save({ head: "next" }, 3);
  expect(stage.texts()).toMatchObject({ key: "k", head: "next" });
  expect(stage.end()).toBeUndefined();
});

test("of the batches, those go that end by an index, and no other", async () => {
  const stage = await openStage();
  for (const [first, count] of [
    [0, 3],
    [3, 2],
    [5, 4],
  ] as const)
    stage.append(batch(first, count));
  stage.save({}, 6);
  expect(stage.batches(0).map(({ first }) => first)).toEqual([5]);
  expect(stage.end()).toBe(9);
});

test("each new object is flushed with the folders that were made for it, and stays as it is", async () => {
  const folder = await temporaryFolder();
  const flushed: string[] = [];
  const objects = fileObjects(folder, async (path) => void flushed.push(relative(folder, path)));
  const [one, two] = [Uint8Array.of(1), Uint8Array.of(2)];
  expect(await objects.create("tile/0/x001/000", one)).toEqual(one);
  expect(flushed.splice(0)).toEqual(["", "tile", "tile/0", "tile/0/x001"]);
  await objects.create("tile/0/x001/001", one);
  expect(flushed.splice(0)).toEqual(["tile/0/x001"]);
  expect(await objects.create("tile/0/x001/001", two)).toEqual(one);
  await objects.replace("checkpoint", one);
  await objects.replace("checkpoint", two);
  expect(await objects.read("checkpoint")).toEqual(two);
  expect(flushed.at(-1)).toBe("");
});
