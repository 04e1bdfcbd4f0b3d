import { describe, expect, test } from "vitest";
import { AnswerTooLong, FetchError } from "../../src/foundation/fetch.ts";
import type { WatchBound } from "../../src/kubernetes/internal/watch-bound.ts";
import { WatchedCollection } from "../../src/kubernetes/watch.ts";
import { addSeconds } from "../../src/pki/x509/validity.ts";
import {
  bookmark,
  event,
  itemsOf,
  page,
  path,
  start,
  thing,
  type Watched,
  type WatchRecord,
  watchBy,
} from "./scripted-watch.ts";

const listsIn = ({ asked }: WatchRecord): number =>
  asked.filter((each) => !each.includes("watch=1") && !each.includes("continue=")).length;
const refused = (status: number): FetchError => new FetchError("refused", { status });

describe("a collection is watched", () => {
  test("from a list of all its objects, by every change", async () => {
    const changes: unknown[] = [];
    const record = await watchBy({
      lists: [page([thing("a"), thing("b")], "next"), page([thing("c")])],
      watches: [
        [
          event("ADDED", thing("d", "new")),
          event("MODIFIED", thing("b", "other")),
          event("DELETED", thing("a")),
        ],
      ],
      changed: (before, after) => changes.push([before, after]),
    });
    expect(itemsOf(record)).toEqual({ b: "other", c: "c", d: "new" });
    expect(changes.slice(3)).toEqual([
      [undefined, "new"],
      ["b", "other"],
      ["a", undefined],
    ]);
    expect(record.collection.hasAll()).toBe(true);
    expect(record.failures).toEqual([]);
  });

  test("from the last event on, when a watch ends or breaks", async () => {
    const record = await watchBy({
      lists: [page([], "", "10")],
      watches: [
        [event("ADDED", thing("a", "a", "11"))],
        [bookmark("12"), new FetchError("broke off")],
        [],
      ],
    });
    const from = record.asked.slice(1).map((each) => /resourceVersion=(\d+)/.exec(each)?.[1]);
    expect(from).toEqual(["10", "11", "12", "12"]);
    expect(listsIn(record)).toBe(1);
  });

  test("by requests in which a version of the server stays a value", async () => {
    const { asked } = await watchBy({ lists: [page([], "", "1&watch=0#")] });
    expect(asked).toEqual([
      `${path}&limit=2`,
      `${path}&watch=1&allowWatchBookmarks=true&timeoutSeconds=10&resourceVersion=1%26watch%3D0%23`,
    ]);
  });

  test("without objects of another kind", async () => {
    const record = await watchBy({
      lists: [page([thing("a"), { metadata: { name: "b" } }])],
      watches: [[event("ADDED", { metadata: {} })]],
    });
    expect(itemsOf(record)).toEqual({ a: "a" });
  });
});

describe("a collection is listed again", () => {
  test.each<[string, Watched]>([
    ["as the status of a watch", [refused(410)]],
    ["as an event", [event("ERROR", { code: 410 })]],
  ])("when the server has forgotten the version, and says so %s", async (_, watched) => {
    const record = await watchBy({
      lists: [page([thing("a"), thing("b")]), page([thing("b"), thing("c")], "", "20")],
      watches: [watched],
    });
    expect(itemsOf(record)).toEqual({ b: "b", c: "c" });
    expect(record.asked.at(-1)).toContain("resourceVersion=20");
    expect(record.failures).toEqual([]);
  });

  test("when the server has forgotten where the next page begins, and drops what has gone", async () => {
    const record = await watchBy({
      lists: [
        ...[page([thing("gone"), thing("a")], "next"), refused(410)],
        ...[page([thing("a")], "next"), page([thing("b")])],
      ],
    });
    expect(itemsOf(record)).toEqual({ a: "a", b: "b" });
    expect(record.failures).toEqual([]);
  });

  test.each<[string, object | Error]>([
    ["breaks", new FetchError("broke off")],
    ["is refused by status 404", refused(404)],
    ["is refused by status 500", refused(500)],
    ["yields an error", event("ERROR", { code: 500 })],
    ["yields what is no event", { type: "NEWS" }],
    ["yields a text", Object("ADDED")],
    ["yields an event without an object", { type: "ADDED" }],
  ])("when a watch %s twice at the same place", async (_, fault) => {
    const record = await watchBy({ lists: [page([]), page([])], watches: [[fault], [fault]] });
    expect(listsIn(record)).toBe(2);
    expect(record.failures).toHaveLength(2);
    expect(record.failures.every((each) => each instanceof FetchError)).toBe(true);
  });

  test.each([401, 403])("never, when only the watch is refused, by status %i", async (status) => {
    const watches = Array.from({ length: 5 }, () => [refused(status)]);
    const record = await watchBy({ lists: [page([])], watches });
    expect(listsIn(record)).toBe(1);
    expect(record.failures).toHaveLength(5);
  });
});

describe("after a failure", () => {
  const away = new FetchError("did not answer");

  test("it waits, longer each time, and as at first once a watch has ended well", async () => {
    const { pausesSeconds, failures } = await watchBy({
      lists: [...Array.from({ length: 9 }, () => away), page([])],
      watches: [[bookmark()], [away]],
    });
    expect(pausesSeconds).toEqual([0.25, 0.5, 1, 2, 4, 8, 16, 30, 30, 0.2, 0.25]);
    expect(failures).toHaveLength(10);
  });

  test("what was known stays", async () => {
    const record = await watchBy({
      lists: [page([thing("a")]), away, new AnswerTooLong()],
      watches: [[refused(410)]],
    });
    expect(itemsOf(record)).toEqual({ a: "a" });
    expect(record.collection.hasAll()).toBe(true);
  });
});

describe("the collection is as of", () => {
  let instant: Date;
  const clock = (): Date => instant;
  const pass = (seconds: number) => () => {
    instant = addSeconds(instant, seconds);
  };

  /** The instant at the end of the script, in seconds after the start. */
  async function asOf(...watches: Watched[]): Promise<number | undefined> {
    instant = start;
    const { collection } = await watchBy({ lists: [page([])], watches, clock });
    const time = collection.asOf()?.getTime();
    return time === undefined ? undefined : (time - start.getTime()) / 1000;
  }

  const change = event("ADDED", thing("a"));

  test.each<[string, number, Watched[]]>([
    ["the beginning of the list", 0, [[pass(5)]]],
    ["the last bookmark", 7, [[pass(5), bookmark(), pass(2), bookmark(), pass(1)]]],
    [
      "the bookmark before a change, behind which others may be",
      5,
      [[pass(5), bookmark(), pass(1), change]],
    ],
    ["the list, where a change has come alone", 0, [[pass(1), change]]],
    ["the list, where a watch ends early", 0, [[pass(8)]]],
    ["the end of a watch that lasted", 9, [[pass(9)]]],
    ["the server's end of the watch, where a bookmark comes later", 10, [[pass(14), bookmark()]]],
    ["the server's end of the watch, which is seen later", 10, [[pass(14)]]],
    [
      "a bookmark of the next watch",
      17,
      [
        [pass(16), bookmark()],
        [pass(1), bookmark()],
      ],
    ],
    ["the bookmark, where the clock was set back", -5, [[pass(-5), bookmark()]]],
    ["the list, where a watch that lasted ends with a change", 0, [[pass(9), change]]],
    ["the list, where a watch that lasted breaks", 0, [[pass(9), new FetchError("broke off")]]],
  ])("%s", async (_, seconds, watches) => {
    expect(await asOf(...watches)).toBe(seconds);
  });

  test.each<[string, Watched]>([
    ["a bookmark", [bookmark(), pass(16), bookmark()]],
    ["a change", [bookmark(), pass(16), change]],
    ["the end of the watch", [bookmark(), pass(16)]],
  ])("no instant, where %s comes long after the server's end of the watch", async (_, watched) => {
    expect(await asOf(watched)).toBeUndefined();
  });

  test("no instant before the first list", async () => {
    const { collection } = await watchBy({ lists: [new FetchError("did not answer")] });
    expect([collection.hasAll(), collection.asOf()]).toEqual([false, undefined]);
  });
});

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

  test("none is kept if the last comes by the watch, and before another one was deleted", async () => {
    const sizes: number[] = [];
    const record = await watchBy({
      lists: many(50_000),
      watches: [
        [
          event("DELETED", thing("0-0")),
          event("ADDED", thing("new")),
          ({ items }) => sizes.push(items.size),
          event("ADDED", thing("newer")),
        ],
      ],
    });
    expect([...sizes, record.collection.items.size]).toEqual([50_000, 0]);
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

  test("a larger object is accepted after others have shrunk or gone", async () => {
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
});

describe("where somebody works off the objects that are beyond the bound,", () => {
  const bound: WatchBound<string> = {
    items: 3,
    octets: 6,
    octetsOf: ({ length }) => length,
    restSeconds: 5,
    ownerOf: (value) => value.slice(0, 1),
  };
  const things = (...names: string[]): object => page(names.map((name) => thing(name)));

  test("the first are kept, and after a short watch the others are asked for", async () => {
    const lists = [things("a1", "a2", "a3", "a4"), things("a1", "a3")];
    const record = await watchBy({ lists, watches: [[], []], bound });
    expect(Object.keys(itemsOf(record))).toEqual(["a1", "a3"]);
    const seconds = record.asked.flatMap((each) => /timeoutSeconds=(\d+)/.exec(each)?.[1] ?? []);
    expect(seconds.slice(0, 2)).toEqual(["5", "10"]);
    expect(record.failures).toMatchObject([{ message: expect.stringContaining("more than 3") }]);
    expect(record.collection.hasAll()).toBe(true);
  });

  test("one of the owner with most gives way to that of another, in the list and in the watch", async () => {
    const listed = await watchBy({ lists: [things("a1", "a2", "a3", "a4", "b1")], bound });
    expect(Object.keys(itemsOf(listed))).toEqual(["a1", "a2", "b1"]);
    const watches = [[event("ADDED", thing("c1")), event("ADDED", thing("a4"))]];
    const watched = await watchBy({ lists: [things("a1", "a2", "a3")], watches, bound });
    expect(Object.keys(itemsOf(watched))).toEqual(["a1", "a2", "c1"]);
  });

  test("those beyond its octets are left out, too, but not for what somebody has taken out", async () => {
    const lists = [page([thing("1", "a:234"), thing("2", "a:2"), thing("3", "a")])];
    const watches: Watched[] = [
      [
        event("MODIFIED", thing("3", "a:2")),
        ({ items }) => items.delete("1"),
        event("ADDED", thing("4", "a:2")),
      ],
    ];
    const record = await watchBy({ lists, watches, bound });
    expect(itemsOf(record)).toEqual({ "3": "a", "4": "a:2" });
    expect(record.failures).toMatchObject([{ message: expect.stringContaining("or 6 octets") }]);
  });

  test("an owner with most gives way until one of another fits", async () => {
    const lists = [page(["1", "2", "3"].map((name) => thing(name, "a2")))];
    const watches = [[event("ADDED", thing("4", "b234"))]];
    const record = await watchBy({ lists, watches, bound });
    expect(itemsOf(record)).toEqual({ "1": "a2", "4": "b234" });
  });

  test("a list without an end keeps no new object from the watch", async () => {
    const endless = Array.from({ length: 1000 }, () => page([thing("a1")], "more"));
    const watches = [[event("ADDED", thing("b1"))]];
    const record = await watchBy({ lists: endless, watches, bound });
    expect(Object.keys(itemsOf(record))).toEqual(["a1", "b1"]);
    expect(record.collection.hasAll()).toBe(false);
  });
});

test("a fault is one of several failures in a row, until a watch brings something", async () => {
  const failing = new FetchError("did not answer (UNABLE_TO_VERIFY_LEAF_SIGNATURE)");
  const lists = (count: number) => Array.from({ length: count }, () => failing);
  const faultAfter = async (count: number) =>
    (await watchBy({ lists: lists(count) })).collection.fault();
  expect(await faultAfter(5)).toBeUndefined();
  expect(await faultAfter(6)).toBe("did not answer (UNABLE_TO_VERIFY_LEAF_SIGNATURE)");
  const healed = await watchBy({ lists: [...lists(6), page([])], watches: [[bookmark()]] });
  expect(healed.collection.fault()).toBeUndefined();
});

test("a watch that is silent beyond its time is given up, and another one begins", async () => {
  const silent = new Promise<never>(() => {});
  let opened = 0;
  const begun = Promise.withResolvers<void>();
  const ending = new AbortController();
  WatchedCollection.watch<string>({
    client: {
      send: async () => page([]),
      open: async (_, signal) => {
        if (++opened === 2) begun.resolve();
        const pull = () => silent;
        const body = new ReadableStream({
          start: (to) => signal.addEventListener("abort", () => to.error(signal.reason)),
          pull,
        });
        return { body };
      },
    },
    listing: { path, pageSize: 2, maximumRequests: 10 },
    keep: () => undefined,
    failed: () => {},
    signal: ending.signal,
    pause: async () => {},
    watchSeconds: 0.01,
  });
  await begun.promise;
  ending.abort();
});
