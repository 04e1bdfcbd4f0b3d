import { describe, expect, test } from "vitest";
import { AuthorityStore } from "../../../src/custody/authority-store.ts";
import { FetchError } from "../../../src/foundation/fetch.ts";
import { createSharedStore } from "../../../src/node/stores/object-space.ts";
import { describeAuthorityStore } from "../../contract/authority-store.ts";
import { spacePromises } from "../../contract/object-space.ts";
import { failure } from "../../testkit/stores/s3-api.ts";
import { id, key, name, startBucket } from "./started-bucket.ts";

describeAuthorityStore(async () => createSharedStore((await startBucket()).space));

describe("objects of a stand-in for a bucket", () => {
  test.each(Object.entries(spacePromises))(
    "%s, with recent lists and a proof",
    async (_, promise) => promise((await startBucket()).another(15)),
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

  test("are refused where the bucket shows an older version than its conditional writes compare with", async () => {
    const { api, space } = await startBucket();
    await space.write(key, "before");
    const first = (await space.read(key))?.version;
    api.shown = new Map(api.objects);
    api.put(name, "after");
    await expect(space.write(key, "mine", first)).rejects.toThrow("shows an older version");
    await expect(space.list("recent")).rejects.toThrow("shows an older version");
    api.shown = undefined;
    expect((await space.list("now")).get(key)?.value).toBe("after");
    api.shown = new Map(api.objects);
    expect((await space.list("now")).get(key)?.value).toBe("after");
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
  const value = "é".repeat(AuthorityStore.maximumRecordOctets / 2);
  await space.write(key, value);
  expect((await space.list("now")).get(key)?.value).toBe(value);
});

describe("a hostile bucket", () => {
  const page = (rest: string): string =>
    `<ListBucketResult><IsTruncated>false</IsTruncated>${rest}</ListBucketResult>`;
  const object = (at: string): string =>
    `<Contents><Key>mesh-1/${at}</Key><ETag>"a"</ETag></Contents>`;
  const more =
    "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>a</NextContinuationToken>";

  async function listing(answer: (count: number) => string) {
    const { api, space } = await startBucket();
    let count = 0;
    api.instead = (request, response) => {
      if (!request.url?.includes("list-type")) return false;
      response.end(answer(count++));
      return true;
    };
    return { api, list: () => space.list("now") };
  }

  test.each([
    ["is cut", page(object("roots/ab")).slice(0, -30)],
    ["says nothing of its end", "<ListBucketResult></ListBucketResult>"],
    ["says something else of its end", page("").replace("false", "no")],
    ["has no token for the rest", more.replace(/<Next.*/, "</ListBucketResult>")],
    ["has no end for a tag", "<ListBucketResult><IsTruncated>false</ListBucketResult>"],
    ["is another document", "<html>welcome</html>"],
    ["is an error with status 200", "<Error><Code>InternalError</Code></Error>"],
    ["has an object twice", page(object("roots/ab").repeat(2))],
    ["has an object of another prefix", page(object("roots/ab").replace("mesh-1", "mesh-2"))],
    ["has a name that no URL has", page(`<EncodingType>url</EncodingType>${object("%ff")}`)],
    ["says its end twice", page("<IsTruncated>false</IsTruncated>")],
  ])("is refused where its list %s", async (_, text) => {
    const { list } = await listing(() => text);
    await expect(list()).rejects.toThrow(FetchError);
  });

  test("is refused by its name where it lists objects without ETags", async () => {
    const { list } = await listing(() => page("<Contents><Key>mesh-1/roots/ab</Key></Contents>"));
    await expect(list()).rejects.toThrow("lists objects without ETag");
  });

  test("is refused where its list goes round, or has empty pages without end", async () => {
    const round = await listing(() => `${more}${object("roots/ab")}</ListBucketResult>`);
    await expect(round.list()).rejects.toThrow(/something else than a list/);
    expect(round.api.asked).toHaveLength(2);
    const empty = await listing(() => `${more}</ListBucketResult>`);
    await expect(empty.list()).rejects.toThrow(/something else than a list/);
    expect(empty.api.asked).toHaveLength(1);
  });

  test("is refused where its list has more objects than any CA", async () => {
    const { list, api } = await listing((count) => {
      const names = Array.from({ length: 4000 }, (_, i) => object(`roots/${count}-${i}`));
      return `${more}${names.join("")}</ListBucketResult>`;
    });
    await expect(list()).rejects.toThrow(/more objects/);
    expect(api.asked).toHaveLength(3);
  });

  test("is refused where a page is longer than a thousand objects", async () => {
    const { list } = await listing(() => page("x".repeat(5 * 1024 * 1024)));
    await expect(list()).rejects.toThrow(FetchError);
  });

  test("is refused where an object has no entity tag", async () => {
    const { api, space } = await startBucket();
    api.instead = (_, response) => Boolean(response.end("rampart object 1 x\n"));
    await expect(space.read(key)).rejects.toThrow(/without an entity tag/);
  });

  test("may show a part of the records, or old ones, and then all of them again", async () => {
    const { api, space } = await startBucket();
    await space.write(key, "first");
    await space.write("roots/ab", "root");
    let partial: string | undefined = page(object("roots/ab"));
    api.instead = (request, response) =>
      partial !== undefined && request.url?.includes("list-type")
        ? Boolean(response.end(partial))
        : false;
    expect([...(await space.list("now")).keys()]).toEqual(["roots/ab"]);
    partial = undefined;
    expect((await space.list("now")).get(key)?.value).toBe("first");
  });
});

describe("recent lists of a bucket", () => {
  test("are requested once in fifteen seconds for all who ask, and whenever a list has to be fresh", async () => {
    const { api, another, time } = await startBucket();
    const seldom = another(15);
    await Promise.all([seldom.list("recent"), seldom.list("recent"), seldom.list("recent")]);
    expect(api.asked).toHaveLength(1);
    await another().write(key, "of the other");
    expect((await seldom.list("recent")).size).toBe(0);
    expect((await seldom.list("now")).size).toBe(1);
    expect((await seldom.list("recent")).size).toBe(1);
    await another().remove(key);
    time.now += 15_000;
    expect((await seldom.list("recent")).size).toBe(0);
  });

  test("are requested anew after the clock was set back", async () => {
    const { another, time } = await startBucket();
    const seldom = another(15);
    await seldom.list("recent");
    await another().write(key, "of the other");
    expect((await seldom.list("recent")).size).toBe(0);
    time.now -= 3_600_000;
    expect((await seldom.list("recent")).size).toBe(1);
  });

  test("show an own write and an own removal whose answers were lost", async () => {
    const { api, another } = await startBucket();
    const seldom = another(15);
    await seldom.prove();
    await seldom.list("recent");
    api.loses = ({ method }) => method !== "GET";
    await expect(seldom.write(key, "own")).rejects.toThrow();
    expect((await seldom.list("recent")).get(key)?.value).toBe("own");
    await expect(seldom.remove(key)).rejects.toThrow();
    expect((await seldom.list("recent")).size).toBe(0);
  });

  test("show an own write at once, and a list that failed is requested again", async () => {
    const { api, another } = await startBucket();
    const seldom = another(15);
    await seldom.list("recent");
    await seldom.write(key, "own");
    expect((await seldom.list("recent")).get(key)?.value).toBe("own");
    await seldom.remove(key);
    expect((await seldom.list("recent")).size).toBe(0);
    api.instead = (_, response) => Boolean(response.writeHead(403).end());
    await expect(seldom.list("now")).rejects.toThrow(/refuses/);
    api.instead = undefined;
    expect((await seldom.list("recent")).size).toBe(0);
  });
});
