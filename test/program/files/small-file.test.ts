import { execFileSync } from "node:child_process";
import { symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { OperatorError } from "../../../src/foundation/operator-error.ts";
import { readSmallFile, unlessMissing } from "../../../src/program/files/small-file.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

async function fileWith(content: string | Uint8Array): Promise<string> {
  const path = join(await temporaryFolder(), "file");
  await writeFile(path, content);
  return path;
}

async function pipe(): Promise<string> {
  const path = join(await temporaryFolder(), "pipe");
  execFileSync("mkfifo", [path]);
  return path;
}

test("reads a file of exactly the limit, and one behind a link", async () => {
  const path = await fileWith("grüße");
  expect(await readSmallFile(path, 7)).toBe("grüße");
  await symlink(path, `${path}-link`);
  expect(await readSmallFile(`${path}-link`, 7)).toBe("grüße");
});

test("reads a pipe where it may be one", async () => {
  const path = await pipe();
  const reading = readSmallFile(path, 4, { mayBePipe: true });
  await writeFile(path, "text");
  expect(await reading).toBe("text");
});

test("refuses a pipe with more than the limit", async () => {
  const path = await pipe();
  const reading = expect(readSmallFile(path, 3, { mayBePipe: true })).rejects.toThrow(
    `${path} is not a file of at most 3 octets`,
  );
  await writeFile(path, "text");
  await reading;
});

test("refuses any other pipe, without waiting for its writer", async () => {
  await expect(readSmallFile(await pipe(), 4)).rejects.toThrow("is not a file");
});

test.each<[string, string | Uint8Array, string]>([
  ["a longer file", "text!", "is not a file of at most 4 octets"],
  ["octets that are no UTF-8", Uint8Array.of(0x30, 0x82, 0xff), "is not text in UTF-8"],
])("refuses %s", async (_, content, why) => {
  const path = await fileWith(content);
  await expect(readSmallFile(path, 4)).rejects.toThrow(`${path} ${why}`);
});

test.each([
  ["a folder", "/", "/ is not a file of at most 4 octets"],
  ["a device", "/dev/zero", "/dev/zero is not a file of at most 4 octets"],
  ["a missing file", "/nowhere/file", "/nowhere/file does not exist"],
])("refuses %s, even where it may be a pipe", async (_, path, why) => {
  const reading = readSmallFile(path, 4, { mayBePipe: true });
  await expect(reading).rejects.toThrow(new OperatorError(why));
});

test("only a missing file may be missing", async () => {
  expect(await unlessMissing(readSmallFile("/nowhere/file", 4))).toBeUndefined();
  await expect(unlessMissing(readSmallFile("/", 4))).rejects.toThrow(OperatorError);
  await expect(unlessMissing(Promise.reject(new Error("defect")))).rejects.toThrow("defect");
});
