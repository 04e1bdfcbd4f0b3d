import { execFileSync } from "node:child_process";
import {
  chmod,
  mkdir,
  readdir,
  readFile,
  readlink,
  rename,
  stat,
  symlink,
  writeFile,
} from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { AuthorityStore } from "../../../src/custody/authority-store.ts";
import { FileStore } from "../../../src/node/files/file-store.ts";
import { describeAuthorityStore } from "../../contract/authority-store.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

describeAuthorityStore(async () => FileStore.open(join(await temporaryFolder(), "store")));

/** How many of this process's descriptors lead into a directory. */
async function filesOpenIn(directory: string): Promise<number> {
  const descriptors = await readdir("/proc/self/fd");
  // A descriptor may be closed before its link is read.
  const links = descriptors.map((each) => readlink(`/proc/self/fd/${each}`).catch(() => ""));
  return (await Promise.all(links)).filter((path) => path.startsWith(directory)).length;
}

const id = "ab".repeat(20);
const name = { kind: "authority", id } as const;
const file = `authorities/${id}.json`;

describe("a file store", () => {
  test("is readable by its owner alone, directory and records", async () => {
    const directory = join(await temporaryFolder(), "a/b");
    const store = await FileStore.open(directory);
    await store.put({ ...name, value: "sealed" });
    expect((await stat(directory)).mode & 0o777).toBe(0o700);
    expect((await stat(join(directory, file))).mode & 0o777).toBe(0o600);
  });

  test("refuses a directory that every user may enter", async () => {
    const directory = await temporaryFolder();
    await chmod(directory, 0o755);
    const refused = await FileStore.open(directory).catch(({ message }: Error) => message);
    execFileSync("/bin/sh", ["-c", /chmod o-rwx [^`]*/.exec(`${refused}`)?.[0] ?? "false"]);
    await expect(FileStore.open(directory)).resolves.toBeDefined();
  });

  test("refuses a path that is not a directory", async () => {
    const path = join(await temporaryFolder(), "file");
    await writeFile(path, "");
    await expect(FileStore.open(path)).rejects.toThrow(/EEXIST|ENOTDIR/);
  });

  test("replaces the value that the writer has read, and no other and none that was deleted", async () => {
    const store = await FileStore.open(join(await temporaryFolder(), "store"));
    expect(await store.put({ ...name, value: "new" }, "old")).toBe(false);
    expect(await store.load()).toEqual([]);
    await store.put({ ...name, value: "other" });
    expect(await store.put({ ...name, value: "new" }, "old")).toBe(false);
    expect(await store.load()).toEqual([{ ...name, value: "other" }]);
    expect(await store.put({ ...name, value: "new" }, "other")).toBe(true);
    expect(await store.load()).toEqual([{ ...name, value: "new" }]);
  });

  test("shows a record to another process at once", async () => {
    const directory = join(await temporaryFolder(), "store");
    const [one, other] = [await FileStore.open(directory), await FileStore.open(directory)];
    await one.put({ ...name, value: "1" });
    expect(await other.load()).toEqual([{ ...name, value: "1" }]);
    await other.delete(name);
    expect(await one.load()).toEqual([]);
  });

  test.runIf(process.platform === "linux")("opens few files at once in one load", async () => {
    const directory = join(await temporaryFolder(), "store");
    const store = await FileStore.open(directory);
    const ids = Array.from({ length: AuthorityStore.maximumRecords }, (_, i) =>
      `${i}`.padStart(40, "0"),
    );
    const write = (each: string) => writeFile(join(directory, `authorities/${each}.json`), each);
    await Promise.all(ids.map(write));
    let most = 0;
    let isLoading = true;
    const loading = store.load().finally(() => {
      isLoading = false;
    });
    while (isLoading) {
      most = Math.max(most, await filesOpenIn(directory));
    }
    expect(new Set((await loading).map(({ value }) => value))).toEqual(new Set(ids));
    // A directory is open while it is listed.
    expect(most).toBeLessThanOrEqual(16 + 3);
  });

  test("never shows half of a record while two write it", async () => {
    const directory = join(await temporaryFolder(), "store");
    const [one, other] = [await FileStore.open(directory), await FileStore.open(directory)];
    const values = ["a", "b"].map((letter) => letter.repeat(20_000));
    await one.put({ ...name, value: values[0] ?? "" });
    const writing = [one, other].flatMap((store, i) =>
      Array.from({ length: 10 }, () => store.put({ ...name, value: values[i] ?? "" })),
    );
    const seen = await Promise.all(Array.from({ length: 20 }, () => other.load()));
    await Promise.all(writing);
    for (const records of seen) expect(values).toContain(records[0]?.value);
    expect(await readdir(join(directory, "authorities"))).toEqual([`${id}.json`]);
  });

  test("ignores other files, and removes the temporary files of killed processes", async () => {
    const directory = join(await temporaryFolder(), "store");
    const folder = join(directory, "authorities");
    await mkdir(folder, { recursive: true, mode: 0o700 });
    await chmod(directory, 0o700);
    const unfinished = ["", ".json"].map((ending) => `.${id}${ending}.${crypto.randomUUID()}`);
    for (const each of ["notes.txt", ...unfinished, "AB.json", "x.json", ".hidden.json"]) {
      await writeFile(join(folder, each), "{");
    }
    const store = await FileStore.open(directory);
    expect(await store.load()).toEqual([]);
    expect((await readdir(folder)).toSorted()).toEqual(
      [".hidden.json", "AB.json", "notes.txt", "x.json"].toSorted(),
    );
  });

  test.each(["../escape", "a/b", "", "AB", "ab.json", "ab\0"])(
    "has no place for the id %j",
    async (id) => {
      const parent = await temporaryFolder();
      const store = await FileStore.open(join(parent, "store"));
      await expect(store.put({ kind: "authority", id, value: "x" })).rejects.toThrow(/hexadecimal/);
      await expect(store.delete({ kind: "authority", id })).rejects.toThrow(/hexadecimal/);
      expect(await readdir(parent)).toEqual(["store"]);
    },
  );

  test("refuses a store with more records than rotations leave", async () => {
    const directory = join(await temporaryFolder(), "store");
    const store = await FileStore.open(directory);
    for (let i = 0; i < 501; i++) {
      await writeFile(join(directory, `roots/${i.toString(16).padStart(40, "0")}.json`), "");
    }
    await expect(store.load()).rejects.toThrow(/more than 500/);
  });

  test.each(["", "authorities", "taints"])(
    "takes a folder that has gone for a fault, and not for an empty one: %j",
    async (gone) => {
      const parent = await temporaryFolder();
      const directory = join(parent, "store");
      const store = await FileStore.open(directory);
      await store.put({ ...name, value: "{}" });
      await rename(join(directory, gone), join(parent, "lost"));
      await expect(store.load()).rejects.toThrow(/ENOENT/);
      await rename(join(parent, "lost"), join(directory, gone));
      expect(await store.load()).toHaveLength(1);
    },
  );

  test("cuts a file that is longer than any record", async () => {
    const directory = join(await temporaryFolder(), "store");
    const store = await FileStore.open(directory);
    await writeFile(join(directory, file), "x".repeat(1_000_000));
    const [record] = await store.load();
    expect(record?.value.length).toBe(256 * 1024);
  });

  test("follows no symbolic link when it writes", async () => {
    const directory = join(await temporaryFolder(), "store");
    const store = await FileStore.open(directory);
    const victim = join(directory, "victim");
    await writeFile(victim, "untouched");
    await symlink(victim, join(directory, file));
    await store.put({ ...name, value: "new" });
    expect(await readFile(victim, "utf8")).toBe("untouched");
    expect(await store.load()).toEqual([{ ...name, value: "new" }]);
  });
});
