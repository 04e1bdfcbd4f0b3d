import { describe, expect, test } from "vitest";
import { key, startBucket } from "./started-bucket.ts";

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
