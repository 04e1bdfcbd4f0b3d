import { execFile } from "node:child_process";
import { chmod, chown, mkdir, readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeEach, describe, expect, test } from "vitest";
import { Mint } from "../../../src/ca/mint.ts";
import { foundIfEmpty, Rotation } from "../../../src/ca/rotation/rotate.ts";
import type { AuthorityStore } from "../../../src/custody/authority-store.ts";
import { FileStore } from "../../../src/node/files/file-store.ts";
import { createMemoryMint } from "../../testkit/ca/memory-mint.ts";
import { createKekRing } from "../../testkit/ca/sealed-authorities.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

const run = promisify(execFile);

const server = 65532;
const another = 65533;
const id = "ab".repeat(20);
const record = { kind: "authority", id, value: "sealed" } as const;

/** Uses a store as another user does. @returns What came of it, or the message of its failure. */
async function as(
  user: number,
  directory: string,
  act: (store: AuthorityStore) => Promise<unknown>,
): Promise<unknown> {
  const groups = process.getgroups?.() ?? [];
  process.setgroups?.([]);
  process.setegid?.(user);
  process.seteuid?.(user);
  try {
    return await act(await FileStore.open(directory));
  } catch (error) {
    return String(error);
  } finally {
    process.seteuid?.(0);
    process.setegid?.(0);
    process.setgroups?.(groups);
  }
}

const load = async (store: AuthorityStore): Promise<unknown> =>
  (await store.load()).map(({ kind, value }) => [kind, value]);
const put = async (store: AuthorityStore): Promise<string> => {
  await store.put(record);
  return "done";
};
const ownersIn = async (directory: string): Promise<ReadonlySet<string>> => {
  const paths = [".", ...(await readdir(directory, { recursive: true }))];
  const stats = await Promise.all(paths.map((path) => stat(join(directory, path))));
  return new Set(stats.map(({ uid, gid }) => `${uid}:${gid}`));
};

const isRoot = process.geteuid?.() === 0;

describe.skipIf(!isRoot)("a store of another user (needs root, to become that user)", () => {
  let parent: string;
  let directory: string;

  beforeEach(async () => {
    parent = await temporaryFolder();
    await chown(parent, server, server);
    directory = join(parent, "store");
  });

  test("can be read by its owner after root has written to it", async () => {
    expect(await as(server, directory, put)).toBe("done");
    const store = await FileStore.open(directory);
    await store.put({ kind: "taint", id, value: "said" });
    await store.put({ ...record, value: "anew" });
    expect(await as(server, directory, load)).toEqual([
      ["authority", "anew"],
      ["taint", "said"],
    ]);
    expect(await ownersIn(directory)).toEqual(new Set([`${server}:${server}`]));
  });

  test("serves on after root has rotated and tainted", async () => {
    expect(await as(server, directory, load)).toEqual([]);
    const now = new Date("2026-11-21T12:00:00Z");
    const store = await FileStore.open(directory);
    const mint = { ...createMemoryMint(await createKekRing()), store };
    await foundIfEmpty(mint, now);
    const [{ id: first = "" } = {}] = await store.load();
    await Mint.recordTaint(mint, { id: first, taintedAt: now, retiresAt: now });
    await Rotation.rotate(mint, now);
    const kinds = async (of: AuthorityStore) => (await of.load()).map(({ kind }) => kind).sort();
    expect(await as(server, directory, kinds)).toEqual(["authority", "authority", "taint"]);
  });

  test("that root makes belongs to the owner of the folder above, as do the folders between and signers' stores", async () => {
    const deep = join(parent, "a/b/store");
    await FileStore.open(deep);
    await FileStore.openSigners({ storeDirectory: deep, ca: { signers: [{ name: "team-a" }] } });
    expect(await ownersIn(join(parent, "a"))).toEqual(new Set([`${server}:${server}`]));
    expect(await as(server, join(deep, "signers/team-a"), put)).toBe("done");
  });

  test("on a volume that root owns belongs to the user who made the folder of records", async () => {
    await chown(parent, 0, server);
    await chmod(parent, 0o2770);
    expect(await as(server, parent, load)).toEqual([]);
    const store = await FileStore.open(parent);
    await store.put(record);
    await FileStore.openSigners({ storeDirectory: parent, ca: { signers: [{ name: "team-a" }] } });
    expect(await as(server, parent, load)).toEqual([["authority", "sealed"]]);
    expect(await as(server, join(parent, "signers/team-a"), put)).toBe("done");
  });

  test("that root has restored into a folder of its own serves once what the refusal says was typed", async () => {
    await chmod(parent, 0o711);
    await mkdir(directory, { mode: 0o700 });
    await (await FileStore.open(directory)).put(record);
    const refused = await as(server, directory, put);
    const [, typed = "false"] =
      /Type, if this user runs the server: sudo (.*)/.exec(`${refused}`) ?? [];
    await run("/bin/sh", ["-c", typed]);
    expect(await as(server, directory, load)).toEqual([["authority", "sealed"]]);
    expect(await as(server, directory, put)).toBe("done");
  });

  const command = `Type: sudo --preserve-env=KEK -u '#${server}' rampart …`;

  test("refuses any other user, with the command to type, and keeps what it holds", async () => {
    expect(await as(server, directory, put)).toBe("done");
    await chmod(parent, 0o711);
    const refused = await as(another, directory, put);
    expect(refused).toBe(
      `OperatorError: ${directory} belongs to user ${server}, who could not read what this user writes there.\n${command}`,
    );
    expect(await as(server, directory, load)).toEqual([["authority", "sealed"]]);
  });

  test("refuses another user who could write there, before anything is written", async () => {
    expect(await as(server, directory, put)).toBe("done");
    await chown(parent, another, another);
    for (const folder of [".", ...(await readdir(directory))]) {
      await chown(join(directory, folder), server, another);
      await chmod(join(directory, folder), 0o770);
    }
    const refused = await as(another, directory, put);
    expect(refused).toContain(`authorities belongs to user ${server}`);
    expect(refused).toContain(command);
    expect(await readdir(join(directory, "authorities"))).toEqual([`${id}.json`]);
  });

  test("refuses another user who would delete a record", async () => {
    expect(await as(server, directory, put)).toBe("done");
    await chmod(parent, 0o711);
    await chown(directory, server, another);
    await chmod(directory, 0o710);
    const remove = (store: AuthorityStore) => store.delete(record);
    expect(await as(another, directory, remove)).toContain(command);
    expect(await as(server, directory, load)).toEqual([["authority", "sealed"]]);
  });
});

test("a store of its own user is used as it is", async () => {
  const directory = join(await temporaryFolder(), "store");
  await mkdir(directory, { mode: 0o700 });
  const store = await FileStore.open(directory);
  await store.put(record);
  const { uid, gid } = await stat(directory);
  expect(await ownersIn(directory)).toEqual(new Set([`${uid}:${gid}`]));
});
