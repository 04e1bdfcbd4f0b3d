import { describe, expect, test } from "vitest";
import { maximumRecordOctets } from "../../../src/custody/authority-store.ts";
import { createSharedStore } from "../../../src/custody/shared/object-space.ts";
import { describeAuthorityStore } from "../../contract/authority-store.ts";
import { spacePromises } from "../../contract/object-space.ts";
import { failure } from "../../testkit/stores/s3-api.ts";
import { id, key, name, startBucket } from "./started-bucket.ts";

describeAuthorityStore(async () => createSharedStore((await startBucket()).space));

describe("objects of a stand-in for a bucket", () => {
  test.each(Object.entries(spacePromises))("%s", async (_, promise) =>
    promise((await startBucket()).space),
  );

  test.each(Object.entries(spacePromises))("%s, with recent lists and a proof", async (_, of) =>
    of((await startBucket()).another(15)),
  );
});

describe("the records in a bucket", () => {
  test("have names that an operator can read, and all of their text", async () => {
    const { api, space } = await startBucket();
    await space.write(key, '{"version":1}');
    expect([...api.objects.keys()]).toEqual([name]);
    expect(api.objects.get(name)?.body).toMatch(/^rampart object 1 [0-9a-f-]{36}\n{"version":1}$/);
  });

  test("may be those of a whole bucket", async () => {
    const { api, space } = await startBucket({ prefix: "" });
    await space.write(key, "x");
    expect([...api.objects.keys()]).toEqual([key]);
    expect([...(await space.list("now")).keys()]).toEqual([key]);
  });

  test.each(["", "authorities/", "Authorities/ab", "a b", "a/../b", `a/${"a".repeat(1025)}`])(
    "have no name for the key %j",
    async (each) => {
      const { api, space } = await startBucket();
      await expect(space.write(each, "")).rejects.toThrow(/name/);
      expect(api.asked).toEqual([]);
    },
  );

  test("are not mistaken for other objects, which are not even read", async () => {
    const { api, space } = await startBucket();
    api.put("mesh-2/authorities/ab", "x");
    api.put("mesh-1/Backup of Friday.json", "x");
    api.put("mesh-1/authorities/", "");
    expect(await space.list("now")).toEqual(new Map());
    expect(api.asked).toEqual(["GET /rampart-store"]);
  });

  test.each([
    ["has another form", "sealed"],
    ["is longer than any record", `rampart object 1 ${id.slice(4)}\n${"x".repeat(300_000)}`],
  ])("are empty where the object %s, and not overlooked", async (_, body) => {
    const { api, space } = await startBucket();
    api.objects.set(`mesh-1/taints/${id}`, { body, entityTag: '"a"' });
    expect(await createSharedStore(space).load()).toEqual([{ kind: "taint", id, value: "" }]);
  });

  test("change their version with each write, even of the same value", async () => {
    const { space } = await startBucket();
    await space.write(key, "same");
    const first = (await space.read(key))?.version;
    await space.write(key, "same", first);
    expect((await space.read(key))?.version).not.toBe(first);
    expect(await space.write(key, "same", first)).toBe(false);
  });

  test("are read once, and again when they have changed", async () => {
    const { api, space, another } = await startBucket();
    for (const each of ["a", "b", "c"]) await space.write(`roots/${each}`, each);
    const other = another();
    await other.list("now");
    const before = api.asked.length;
    await other.list("now");
    expect(api.asked.slice(before)).toEqual(["GET /rampart-store"]);
    await space.write("roots/b", "new", (await space.read("roots/b"))?.version);
    expect((await other.list("now")).get("roots/b")?.value).toBe("new");
    await space.remove("roots/a");
    expect([...(await other.list("now")).keys()]).toEqual(["roots/b", "roots/c"]);
  });

  test("are left out of a list where one was removed meanwhile", async () => {
    const { api, space } = await startBucket();
    await space.write(key, "x");
    api.instead = (request, response) => {
      if (request.url !== `/rampart-store/${name}`) return false;
      const { status, body } = failure(404, "NoSuchKey");
      response.writeHead(status).end(body);
      return true;
    };
    expect(await space.list("now")).toEqual(new Map());
  });
});

test("a record may be as long in a bucket as anywhere", async () => {
  const { space } = await startBucket();
  const value = "é".repeat(maximumRecordOctets / 2);
  await space.write(key, value);
  expect((await space.list("now")).get(key)?.value).toBe(value);
});
