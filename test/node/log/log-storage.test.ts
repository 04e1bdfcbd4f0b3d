import { join, relative } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { fileObjects, openSqliteStage } from "../../../src/node/log/log-storage.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

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
