import { execFileSync } from "node:child_process";
import { chmod, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { OperatorError } from "../../../src/foundation/errors.ts";
import { SmallFile, TokenFile, unlessMissing } from "../../../src/program/files/small-file.ts";
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
  expect(await SmallFile.read(path, 7)).toBe("grüße");
  await symlink(path, `${path}-link`);
  expect(await SmallFile.read(`${path}-link`, 7)).toBe("grüße");
});

test("reads a pipe where it may be one", async () => {
  const path = await pipe();
  const reading = SmallFile.read(path, 4, { mayBePipe: true });
  await writeFile(path, "text");
  expect(await reading).toBe("text");
});

test("refuses a pipe with more than the limit", async () => {
  const path = await pipe();
  const reading = expect(SmallFile.read(path, 3, { mayBePipe: true })).rejects.toThrow(
    `${path} is not a file of at most 3 octets`,
  );
  await writeFile(path, "text");
  await reading;
});

test("refuses any other pipe, without waiting for its writer", async () => {
  await expect(SmallFile.read(await pipe(), 4)).rejects.toThrow("is not a file");
});

test.each<[string, string | Uint8Array, string]>([
  ["a longer file", "text!", "is not a file of at most 4 octets"],
  ["octets that are no UTF-8", Uint8Array.of(0x30, 0x82, 0xff), "is not text in UTF-8"],
])("refuses %s", async (_, content, why) => {
  const path = await fileWith(content);
  await expect(SmallFile.read(path, 4)).rejects.toThrow(`${path} ${why}`);
});

test.each([
  ["a folder", "/", "/ is not a file of at most 4 octets"],
  ["a device", "/dev/zero", "/dev/zero is not a file of at most 4 octets"],
  ["a missing file", "/nowhere/file", "/nowhere/file does not exist"],
])("refuses %s, even where it may be a pipe", async (_, path, why) => {
  const reading = SmallFile.read(path, 4, { mayBePipe: true });
  await expect(reading).rejects.toThrow(new OperatorError(why));
});

test("only a missing file may be missing", async () => {
  expect(await unlessMissing(SmallFile.read("/nowhere/file", 4))).toBeUndefined();
  await expect(unlessMissing(SmallFile.read("/", 4))).rejects.toThrow(OperatorError);
  await expect(unlessMissing(Promise.reject(new Error("defect")))).rejects.toThrow("defect");
});

async function tokenFile(content: string | Uint8Array): Promise<string> {
  const file = join(await temporaryFolder(), "token");
  await writeFile(file, content);
  return file;
}

describe.each([
  ["a token", TokenFile.read],
  ["a token, if any,", TokenFile.readIfAny],
])("%s", (_, read) => {
  test.each(["a.b.c", "a.b.c\n", " \ta.b.c\r\n\n"])("is read from %j", async (text) => {
    expect(await read(await tokenFile(text))).toBe("a.b.c");
  });

  test("is read anew each time", async () => {
    const file = await tokenFile("first");
    expect(await read(file)).toBe("first");
    await writeFile(file, "second\n");
    expect(await read(file)).toBe("second");
  });

  test.each<[string, string | Uint8Array]>([
    ["two lines", "s3cret\ns3cret"],
    ["two words", "s3cret s3cret"],
    ["a control character", "s3cret\u0000"],
    ["what is not ASCII", "s3cret\u00ff"],
    ["what is not text", Uint8Array.of(0x73, 0xff, 0x73)],
    ["more than a header carries", "s3cret".repeat(3000)],
  ])("is not read from %s, and the error does not quote it", async (_, content) => {
    const error = await read(await tokenFile(content)).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(OperatorError);
    expect(String(error)).not.toContain("s3c");
  });

  test("is not read from a folder", async () => {
    await expect(read(await temporaryFolder())).rejects.toThrow("is not a file");
  });

  test("is not read from within a file", async () => {
    const file = await tokenFile("a.b.c");
    await expect(read(join(file, "token"))).rejects.toThrow("cannot be read: ENOTDIR");
  });

  test.skipIf(process.getuid?.() === 0)("is not read without the right to", async () => {
    const file = await tokenFile("a.b.c");
    await chmod(file, 0);
    await expect(read(file)).rejects.toThrow("cannot be read: EACCES");
  });
});

test("a missing or empty file is refused where a token is needed", async () => {
  await expect(TokenFile.read("/nowhere/token")).rejects.toThrow("does not exist");
  await expect(TokenFile.read(await tokenFile("\n"))).rejects.toThrow("must hold a bearer token");
});

test("a missing or empty file is no token where none is needed", async () => {
  expect(await TokenFile.readIfAny("/nowhere/token")).toBeUndefined();
  expect(await TokenFile.readIfAny(await tokenFile(" \n"))).toBeUndefined();
});
