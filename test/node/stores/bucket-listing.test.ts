import { describe, expect, test } from "vitest";
import { FetchError } from "../../../src/foundation/fetch.ts";
import { key, startBucket } from "./started-bucket.ts";

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
    ["is empty", ""],
    ["is cut", page(object("roots/ab")).slice(0, -30)],
    ["says nothing of its end", "<ListBucketResult></ListBucketResult>"],
    ["has no token for the rest", more.replace(/<Next.*/, "</ListBucketResult>")],
    ["has no end for a tag", "<ListBucketResult><IsTruncated>false</ListBucketResult>"],
    ["is another document", "<html>welcome</html>"],
    ["is an error with status 200", "<Error><Code>InternalError</Code></Error>"],
    ["has an object twice", page(object("roots/ab").repeat(2))],
    ["has an object of another prefix", page(object("roots/ab").replace("mesh-1", "mesh-2"))],
    ["has an object without a version", page("<Contents><Key>mesh-1/roots/ab</Key></Contents>")],
    ["has a name that no URL has", page(`<EncodingType>url</EncodingType>${object("%ff")}`)],
    ["declares an entity", `<!DOCTYPE a [<!ENTITY e "x">]>${page("")}`],
    ["nests without end", "<a>".repeat(1000)],
    ["says its end twice", page("<IsTruncated>false</IsTruncated>")],
  ])("is refused where its list %s", async (_, text) => {
    const { list } = await listing(() => text);
    await expect(list()).rejects.toThrow(FetchError);
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
