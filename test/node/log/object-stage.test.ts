import { expect, test } from "vitest";
import { hashEntry } from "../../../src/node/log/node-log.ts";
import { ObjectStage, Overtaken, publishedObjects } from "../../../src/node/log/object-stage.ts";
import { StagedBatch } from "../../../src/tlog/sequencer/storage.ts";
import { Tile } from "../../../src/tlog/tile.ts";
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
