import { describe, expect, test } from "vitest";
import { listSeldom } from "../../../../src/node/stores/s3/recent-list.ts";
import { key, startBucket } from "./started-bucket.ts";

describe("recent lists of a bucket", () => {
  test("are requested once in their time for all who ask, and whenever they have to be fresh", async () => {
    const { api, space, another, clock, time } = await startBucket();
    const seldom = listSeldom(space, 15, clock);
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

  test("show an own write at once, and what failed is asked for again", async () => {
    const { api, space, clock } = await startBucket();
    const seldom = listSeldom(space, 15, clock);
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
