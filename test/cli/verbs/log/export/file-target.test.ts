import { appendFile, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ExportState } from "../../../../../src/cli/verbs/log/export/export-state.ts";
import { FileTarget } from "../../../../../src/cli/verbs/log/export/file-target.ts";
import { temporaryFolder } from "../../../../testkit/temporary-folder.ts";

const first = "a0\n";
const second = "a1\na2\n";

/** What a process leaves that was killed after so many octets of its second write. */
async function killedAfter(octets: number) {
  const path = join(await temporaryFolder(), "events.jsonl");
  using state = new ExportState(`${path}.state`);
  await new FileTarget(path, state).write(first, "a", { at: 1, mark: "m1" });
  state.prepare({ octets: Buffer.from(second), source: "a", position: { at: 3, mark: "m3" } });
  await appendFile(path, second.slice(0, octets));
  return path;
}

async function resume(path: string) {
  using state = new ExportState(`${path}.state`);
  const before = state.position("a")?.at;
  await new FileTarget(path, state).finish();
  return { before, after: state.position("a")?.at };
}

test("a write that was killed after any octet is completed, once", async () => {
  for (let octets = 0; octets <= second.length; octets++) {
    const path = await killedAfter(octets);
    expect(await resume(path)).toEqual({ before: 1, after: 3 });
    expect([octets, await readFile(path, "utf8")]).toEqual([octets, first + second]);
    await resume(path);
    expect(await readFile(path, "utf8")).toBe(first + second);
  }
});

test("a write is completed in the file where it began, though that is rotated since", async () => {
  const path = await killedAfter(4);
  await rename(path, `${path}.1`);
  await writeFile(path, "");
  await resume(path);
  expect(await readFile(`${path}.1`, "utf8")).toBe(first + second);
  using state = new ExportState(`${path}.state`);
  await new FileTarget(path, state).write("next\n", "a", { at: 4, mark: "m4" });
  expect(await readFile(path, "utf8")).toBe("next\n");
});

test("lines that somebody else appended stay, and a write begins on a line of its own", async () => {
  const path = await killedAfter(4);
  await appendFile(path, "a stranger's\nand a torn");
  await resume(path);
  const text = await readFile(path, "utf8");
  expect(text).toBe(`${first}${second.slice(0, 4)}a stranger's\nand a torn\n${second}`);
});

test("a torn last line of a file that has no state is ended", async () => {
  const path = join(await temporaryFolder(), "events.jsonl");
  await writeFile(path, '{"origin":');
  using state = new ExportState(`${path}.state`);
  await new FileTarget(path, state).write(first, "a", { at: 1, mark: "m1" });
  expect(await readFile(path, "utf8")).toBe(`{"origin":\n${first}`);
});

test("two processes cannot export to one file", async () => {
  const path = join(await temporaryFolder(), "events.jsonl");
  using _ = new ExportState(`${path}.state`);
  expect(() => new ExportState(`${path}.state`)).toThrow("does another process export");
});
