import { mkdir, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { flushFolder, replaceFile } from "../../../src/host/files/atomic-file.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

test("a file is created and replaced with its permissions", async () => {
  const folder = await temporaryFolder();
  const file = join(folder, "file");
  await replaceFile(file, "first and longer", { mode: 0o600 });
  await replaceFile(file, Uint8Array.of(0x32), { mode: 0o644 });
  expect(await readFile(file, "utf8")).toBe("2");
  expect((await stat(file)).mode & 0o777).toBe(0o644);
  expect(await readdir(folder)).toEqual(["file"]);
});

test("a reader never sees a part of a file", async () => {
  const file = join(await temporaryFolder(), "file");
  const contents = ["a".repeat(1_000_000), "b".repeat(2_000_000)];
  await replaceFile(file, contents[0] ?? "", { mode: 0o600 });
  const writing = contents.map((content) => replaceFile(file, content, { mode: 0o600 }));
  const seen = await Promise.all(Array.from({ length: 20 }, () => readFile(file, "utf8")));
  await Promise.all(writing);
  for (const each of seen) expect(contents).toContain(each);
});

test("a failed replacement leaves no temporary file", async () => {
  const folder = await temporaryFolder();
  await mkdir(join(folder, "file"));
  await writeFile(join(folder, "file", "x"), "");
  await expect(replaceFile(join(folder, "file"), "content", { mode: 0o600 })).rejects.toThrow();
  expect(await readdir(folder)).toEqual(["file"]);
});

test("a folder is flushed, and a missing one is an error", async () => {
  const folder = await temporaryFolder();
  await flushFolder(folder);
  await expect(flushFolder(join(folder, "missing"))).rejects.toThrow("ENOENT");
});
