import { describe, expect, test } from "vitest";
import { AuthorityStore } from "../../../src/custody/authority-store.ts";
import {
  createSharedStore,
  type ObjectSpace,
  signerStoreIn,
} from "../../../src/node/stores/object-space.ts";
import { describeAuthorityStore } from "../../contract/authority-store.ts";
import { spacePromises } from "../../contract/object-space.ts";
import { createMemorySpace } from "../../testkit/stores/memory-space.ts";

describeAuthorityStore(async () => createSharedStore(createMemorySpace()));

describe("objects in memory", () => {
  test.each(Object.entries(spacePromises))("%s", (_, promise) => promise(createMemorySpace()));
});

const record = { kind: "authority", id: "ab".repeat(20), value: "sealed" } as const;
const key = `authorities/${record.id}`;

describe("a shared store", () => {
  test("keeps the records of signers apart", async () => {
    const space = createMemorySpace();
    await createSharedStore(space).put(record);
    await signerStoreIn(space)("team-a").put({ ...record, value: "of the team" });
    expect(await createSharedStore(space).load()).toEqual([record]);
    expect(await signerStoreIn(space)("team-a").load()).toEqual([
      { ...record, value: "of the team" },
    ]);
    expect([...space.objects.keys()]).toEqual([key, `signers/team-a/${key}`]);
    // A name that begins the other, and one of the same length.
    for (const other of ["team", "team-b"]) {
      expect(await signerStoreIn(space)(other).load()).toEqual([]);
    }
  });

  test("ignores objects of any other name", async () => {
    const space = createMemorySpace();
    for (const each of ["rotation", "authorities", "others/ab", "a/b/c", "authorities/a/b"]) {
      await space.write(each, "");
    }
    expect(await createSharedStore(space).load()).toEqual([]);
  });

  test("refuses more records than any CA has", async () => {
    const space = createMemorySpace();
    for (let i = 0; i <= AuthorityStore.maximumRecords; i++) await space.write(`roots/${i}`, "");
    await expect(createSharedStore(space).load()).rejects.toThrow(/more than 500/);
  });

  test("refuses a record that is too long, new or in place of another, and writes nothing", async () => {
    const space = createMemorySpace();
    const long = { ...record, value: "é".repeat(AuthorityStore.maximumRecordOctets / 2 + 1) };
    await expect(createSharedStore(space).put(long)).rejects.toThrow(/octets/);
    expect(space.objects.size).toBe(0);
    await space.write(key, "old");
    await expect(createSharedStore(space).put(long, "old")).rejects.toThrow(/octets/);
    expect(space.objects.get(key)?.value).toBe("old");
  });

  test("undoes no write that it has not read", async () => {
    const space = createMemorySpace();
    await space.write(key, "old");
    const seen: (string | undefined)[] = [];
    const racing: ObjectSpace = {
      ...space,
      write: async (at, value, version) => {
        seen.push(space.objects.get(at)?.value);
        const isWritten = await space.write(at, value, version);
        // After the first read, another replica replaces the record.
        if (seen.length === 1) await space.write(at, "other", space.objects.get(at)?.version);
        return isWritten;
      },
    };
    await createSharedStore(racing).put({ ...record, value: "new" });
    expect(seen).toEqual(["old", "other"]);
    expect(space.objects.get(key)?.value).toBe("new");
  });

  test("replaces the value that the writer has read, and no other", async () => {
    const space = createMemorySpace();
    await space.write(key, "old");
    const replace = () => createSharedStore(space).put({ ...record, value: "new" }, "old");
    expect([await replace(), await replace()]).toEqual([true, false]);
    await space.write(key, "other", space.objects.get(key)?.version);
    expect(await replace()).toBe(false);
    expect(space.objects.get(key)?.value).toBe("other");
  });

  test("does not bring back a record that was deleted since its writer has read it", async () => {
    const space = createMemorySpace();
    expect(await createSharedStore(space).put({ ...record, value: "new" }, "old")).toBe(false);
    expect(space.objects.size).toBe(0);
    await space.write(key, "old");
    const late = { ...space, read: async () => ({ value: "old", version: "0" }) };
    await space.remove(key);
    expect(await createSharedStore(late).put({ ...record, value: "new" }, "old")).toBe(false);
    expect(space.objects.size).toBe(0);
  });

  test("takes a write for done whose confirmation was lost", async () => {
    const space = createMemorySpace();
    const write: ObjectSpace["write"] = async (...object) => {
      await space.write(...object);
      return false;
    };
    const forgetful = createSharedStore({ ...space, write });
    await forgetful.put(record);
    expect(await createSharedStore(space).load()).toEqual([record]);
    expect(await forgetful.put({ ...record, value: "new" }, record.value)).toBe(true);
  });

  test("gives up where others never stop writing", async () => {
    const space = { ...createMemorySpace(), write: async () => false };
    await expect(createSharedStore(space).put(record)).rejects.toThrow(/other writers/);
  });
});
