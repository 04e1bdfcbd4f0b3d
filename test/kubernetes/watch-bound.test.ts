import { describe, expect, test } from "vitest";
import { event, itemsOf, page, thing, watchBy } from "./scripted-watch.ts";

describe("of more than fifty thousand objects,", () => {
  const many = (count: number): object[] =>
    Array.from({ length: count / 1000 }, (_, i) => {
      const items = Array.from({ length: 1000 }, (_, j) => thing(`${i}-${j}`));
      return page(items, i + 1 < count / 1000 ? `${i}` : "");
    });

  test("none is kept, and the next list comes after a quarter of an hour", async () => {
    const [first = {}, ...others] = many(51_000);
    const record = await watchBy({ lists: [first, ...others.slice(0, 50)] });
    expect(itemsOf(record)).toEqual({});
    expect([record.collection.hasAll(), record.collection.asOf()]).toEqual([false, undefined]);
    expect(record.pausesSeconds).toEqual([900]);
    expect(record.failures).toMatchObject([{ message: expect.stringContaining("50000") }]);
  });

  test("none is refused where one goes before another comes", async () => {
    const record = await watchBy({
      lists: many(50_000),
      watches: [[event("DELETED", thing("0-0")), event("ADDED", thing("new"))]],
    });
    expect(record.collection.items.size).toBe(50_000);
    expect(record.failures).toEqual([]);
  });

  test("none is kept if the last comes by the watch", async () => {
    const record = await watchBy({
      lists: many(50_000),
      watches: [[event("ADDED", thing("new"))]],
    });
    expect(record.collection.items.size).toBe(0);
    expect(record.failures).toHaveLength(1);
  });
});

describe("of objects that are too large together,", () => {
  const bound = { items: 10, octets: 6, octetsOf: (value: string) => value.length };

  test("none is kept, whether the last comes by the list or by the watch", async () => {
    const lists = [page([thing("a", "1234"), thing("b", "123")])];
    const listed = await watchBy({ lists, bound });
    expect(itemsOf(listed)).toEqual({});
    expect(listed.pausesSeconds).toEqual([900]);
    expect(listed.failures).toMatchObject([{ message: expect.stringContaining("6 octets") }]);
    const grown = await watchBy({
      lists: [page([thing("a", "1234"), thing("b", "12")])],
      watches: [[event("MODIFIED", thing("b", "123"))]],
      bound,
    });
    expect(itemsOf(grown)).toEqual({});
    expect(grown.collection.hasAll()).toBe(false);
  });

  test("none is refused where room has come before", async () => {
    const record = await watchBy({
      lists: [page([thing("a", "1234"), thing("b", "12")])],
      watches: [
        [event("MODIFIED", thing("a", "1")), event("ADDED", thing("c", "123"))],
        [event("DELETED", thing("b")), event("MODIFIED", thing("a", "123"))],
      ],
      bound,
    });
    expect(itemsOf(record)).toEqual({ a: "123", c: "123" });
    expect(record.failures).toEqual([]);
  });

  test("none is kept of more than the bound's number", async () => {
    const items = Array.from({ length: 11 }, (_, i) => thing(`${i}`, ""));
    expect(itemsOf(await watchBy({ lists: [page(items)], bound }))).toEqual({});
  });
});
