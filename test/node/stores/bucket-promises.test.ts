import { describe, expect, test } from "vitest";
import { FetchError } from "../../../src/foundation/fetch.ts";
import { requirePromises } from "../../../src/node/stores/bucket-promises.ts";
import type { ObjectSpace } from "../../../src/node/stores/object-space.ts";
import { failure } from "../../testkit/stores/s3-api.ts";
import { key, name, startBucket } from "./started-bucket.ts";

describe("the proof that a bucket keeps the promises of a store", () => {
  test.each([
    ["if-none-match", /ignores If-None-Match/],
    ["if-match", /ignores If-Match/],
    ["if-match-of-nothing", /creates an object with If-Match/],
  ] as const)(
    "refuses a service that ignores %s, before anything is written",
    async (ignores, why) => {
      const { api, another } = await startBucket();
      api.ignores = ignores;
      const space = another();
      await expect(space.prove()).rejects.toThrow(why);
      await expect(space.write(key, "x")).rejects.toThrow(
        `the bucket ${api.place.url} cannot hold the store: it `,
      );
      expect([...api.objects.keys()]).toEqual([]);
    },
  );

  test.each([
    ["if-none-match", /lets several writers at once create an object/],
    ["if-match", /lets several writers at once replace it/],
  ] as const)("refuses a service that judges %s and writes later", async (races, why) => {
    const { api, another } = await startBucket();
    api.races = races;
    const space = another();
    await expect(space.prove()).rejects.toThrow(why);
    await expect(space.write(key, "x")).rejects.toThrow(why);
    expect([...api.objects.keys()]).toEqual([]);
  });

  test("takes a service that refuses writers while another writes", async () => {
    const { space } = await startBucket();
    const isUnderWay = new Set<string>();
    const busy: ObjectSpace = {
      ...space,
      write: async (at, ...object) => {
        if (isUnderWay.has(at)) throw new FetchError("is busy", { status: 429 });
        isUnderWay.add(at);
        return await space.write(at, ...object).finally(() => isUnderWay.delete(at));
      },
    };
    await requirePromises(busy, "it");
  });

  test("refuses a service that implements no conditional writes", async () => {
    const { api, another } = await startBucket();
    api.instead = ({ headers }, response) => {
      if (headers["if-none-match"] === undefined) return false;
      response.writeHead(501).end(failure(501, "NotImplemented").body);
      return true;
    };
    const space = another();
    await expect(space.prove()).rejects.toThrow(/no conditional writes/);
    await expect(space.write(key, "x")).rejects.toThrow(/no conditional writes/);
  });

  test("refuses a service whose lists lag behind its writes", async () => {
    const { space } = await startBucket();
    const lagging = { ...space, list: async () => new Map() };
    await expect(requirePromises(lagging, "it")).rejects.toThrow(/does not list/);
  });

  test("comes before the first write of a process alone, and leaves no object behind", async () => {
    const { api, another } = await startBucket();
    const proven = another();
    await proven.list("now");
    await proven.read(key);
    expect(api.asked.every((each) => each.startsWith("GET"))).toBe(true);
    await proven.write(key, "x");
    expect([...api.objects.keys()]).toEqual([name]);
    const before = api.asked.length;
    await proven.write("roots/ab", "y");
    expect(api.asked.slice(before)).toEqual(["PUT /rampart-store/mesh-1/roots/ab"]);
  });

  test("does not wait for a service that has not answered, because its process has to start", async () => {
    const { space } = await startBucket();
    const { promise: never } = Promise.withResolvers<never>();
    const fault = new FetchError("did not answer");
    const silent = { ...space, write: () => Promise.reject(fault), remove: () => never };
    await expect(requirePromises(silent, "it")).rejects.toBe(fault);
  });

  test("is repeated where the service was away", async () => {
    const { api, another } = await startBucket();
    api.instead = (_, response) => Boolean(response.destroy());
    const proven = another();
    await expect(proven.write(key, "x")).rejects.toThrow(FetchError);
    api.instead = undefined;
    expect(await proven.write(key, "x")).toBe(true);
  });
});
