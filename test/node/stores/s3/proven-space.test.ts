import { describe, expect, test } from "vitest";
import { FetchError } from "../../../../src/foundation/fetch.ts";
import { proveFirst } from "../../../../src/node/stores/s3/proven-space.ts";
import { failure } from "../../../testkit/stores/s3-api.ts";
import { key, name, startBucket } from "./started-bucket.ts";

describe("a service that is proven", () => {
  test.each([
    ["if-none-match", /ignores If-None-Match/],
    ["if-match", /ignores If-Match/],
    ["if-match-of-nothing", /creates an object with If-Match/],
  ] as const)(
    "is refused where it ignores %s, before anything is written",
    async (ignores, why) => {
      const { api, space } = await startBucket();
      api.ignores = ignores;
      const { prove, space: proven } = proveFirst(space, "the bucket");
      await expect(prove()).rejects.toThrow(why);
      await expect(proven.write(key, "x")).rejects.toThrow(
        /^the bucket cannot hold the store: it /,
      );
      expect([...api.objects.keys()]).toEqual([]);
    },
  );

  test("is refused where it implements no condition", async () => {
    const { api, space } = await startBucket();
    api.instead = ({ headers }, response) => {
      if (headers["if-none-match"] === undefined) return false;
      response.writeHead(501).end(failure(501, "NotImplemented").body);
      return true;
    };
    await expect(proveFirst(space, "it").prove()).rejects.toThrow(/no conditional writes/);
  });

  test("is refused where its lists lag behind its writes", async () => {
    const { space } = await startBucket();
    const lagging = { ...space, list: async () => new Map() };
    await expect(proveFirst(lagging, "it").prove()).rejects.toThrow(/does not list/);
  });

  test("shows it once in a process, leaves nothing behind, and is asked for nothing to read", async () => {
    const { api, space } = await startBucket();
    const { space: proven } = proveFirst(space, "it");
    await proven.list("now");
    await proven.read(key);
    expect(api.asked.every((each) => each.startsWith("GET"))).toBe(true);
    await proven.write(key, "x");
    expect([...api.objects.keys()]).toEqual([name]);
    const before = api.asked.length;
    await proven.write("roots/ab", "y");
    expect(api.asked.slice(before)).toEqual(["PUT /rampart-store/mesh-1/roots/ab"]);
  });

  test("is not waited for once it has not answered: its process has to start", async () => {
    const { space } = await startBucket();
    const { promise: never } = Promise.withResolvers<never>();
    const fault = new FetchError("did not answer");
    const silent = { ...space, write: () => Promise.reject(fault), remove: () => never };
    await expect(proveFirst(silent, "it").prove()).rejects.toBe(fault);
  });

  test("is asked again where it was away", async () => {
    const { api, space } = await startBucket();
    api.instead = (_, response) => Boolean(response.destroy());
    const { space: proven } = proveFirst(space, "it");
    await expect(proven.write(key, "x")).rejects.toThrow(FetchError);
    api.instead = undefined;
    expect(await proven.write(key, "x")).toBe(true);
  });
});
