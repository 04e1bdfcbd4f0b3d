import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { AtomicFile } from "../../../src/program/files/atomic-file.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

test("a file is created and replaced with its permissions", async () => {
  const folder = await temporaryFolder();
  const file = join(folder, "file");
  await AtomicFile.replace(file, "first and longer", { mode: 0o600 });
  await AtomicFile.replace(file, Uint8Array.of(0x32), { mode: 0o644 });
  expect(await readFile(file, "utf8")).toBe("2");
  expect((await stat(file)).mode & 0o777).toBe(0o644);
  expect(await readdir(folder)).toEqual(["file"]);
});

test("a reader never sees a part of a file", async () => {
  const file = join(await temporaryFolder(), "file");
  const contents = ["a".repeat(1_000_000), "b".repeat(2_000_000)];
  await AtomicFile.replace(file, contents[0] ?? "", { mode: 0o600 });
  const writing = contents.map((content) => AtomicFile.replace(file, content, { mode: 0o600 }));
  const seen = await Promise.all(Array.from({ length: 20 }, () => readFile(file, "utf8")));
  await Promise.all(writing);
  for (const each of seen) expect(contents).toContain(each);
});

test("a failed replacement leaves no temporary file", async () => {
  const folder = await temporaryFolder();
  await mkdir(join(folder, "file"));
  await writeFile(join(folder, "file", "x"), "");
  await expect(
    AtomicFile.replace(join(folder, "file"), "content", { mode: 0o600 }),
  ).rejects.toThrow();
  expect(await readdir(folder)).toEqual(["file"]);
});

test("a file is created whole, or an existing one left as it is", async () => {
  const folder = await temporaryFolder();
  const file = join(folder, "file");
  await AtomicFile.create(file, "first", { mode: 0o600 });
  await expect(AtomicFile.create(file, "second", { mode: 0o600 })).rejects.toThrow("EEXIST");
  expect(await readFile(file, "utf8")).toBe("first");
  expect((await stat(file)).mode & 0o777).toBe(0o600);
  expect(await readdir(folder)).toEqual(["file"]);
});

test.each(["create", "replace"])(
  "a process that exits in %s leaves no part of a file",
  async (write) => {
    const folder = await temporaryFolder();
    const module = import.meta.resolve("../../../src/program/files/atomic-file.ts");
    const script = `
      import { watch } from "node:fs";
      import { AtomicFile } from ${JSON.stringify(module)};
      // The temporary file is there, and its content is not.
      watch(${JSON.stringify(folder)}, () => process.exit(7));
      await AtomicFile.${write}(${JSON.stringify(join(folder, "file"))}, "a".repeat(2 ** 26), { mode: 0o600 });`;
    const child = spawn(process.execPath, ["--input-type=module", "-e", script]);
    onTestFinished(() => void child.kill("SIGKILL"));
    expect(await once(child, "exit")).toEqual([7, null]);
    expect(await readdir(folder)).toEqual([]);
  },
);

test("a folder is flushed, and a missing one is an error", async () => {
  const folder = await temporaryFolder();
  await AtomicFile.flushFolder(folder);
  await expect(AtomicFile.flushFolder(join(folder, "missing"))).rejects.toThrow("ENOENT");
});
