import { execFileSync } from "node:child_process";
import { mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import {
  maximumPemOctets,
  readPemFile,
  readPemFileNow,
} from "../../../src/program/files/pem-file.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

let folder: string;
const at = (name: string): string => join(folder, name);

beforeEach(async () => {
  folder = await temporaryFolder();
  await writeFile(at("file"), "PEM");
  await symlink("file", at("link"));
  await writeFile(at("longest"), "x".repeat(maximumPemOctets));
  await writeFile(at("too-long"), "x".repeat(maximumPemOctets + 1));
  await mkdir(at("folder"));
  execFileSync("mkfifo", [at("pipe")]);
  await symlink("/dev/zero", at("endless"));
});

const readers = [
  ["readPemFile", readPemFile],
  ["readPemFileNow", async (path: string) => readPemFileNow(path)],
] as const;

describe.each(readers)("%s", (_, read) => {
  test.each(["file", "link"])("reads a %s", async (name) => {
    expect(await read(at(name))).toBe("PEM");
  });

  test("reads the longest file", async () => {
    expect(await read(at("longest"))).toHaveLength(maximumPemOctets);
  });

  // A pipe has no writer here, so that a reader who opens it waits for ever.
  test.each(["too-long", "folder", "pipe", "endless"])("refuses at once: %s", async (name) => {
    await expect(read(at(name))).rejects.toThrow("is not a file of at most 1048576 octets");
  });

  test("says that a file is missing", async () => {
    await expect(read(at("missing"))).rejects.toThrow(/does not exist|ENOENT/);
  });
});
