import { expect, test } from "vitest";
import { createTtlCache } from "../../src/foundation/caches.ts";

const at = (seconds: number): Date => new Date(1_700_000_000_000 + 1000 * seconds);

test("a full cache evicts the entry that was set first, and none for another value of a known key", () => {
  const cache = createTtlCache<string>(2);
  cache.set("first", "1", at(0), at(60));
  cache.set("second", "2", at(1), at(60));
  cache.set("second", "two", at(2), at(60));
  expect(["first", "second"].map((key) => cache.get(key, at(3)))).toEqual(["1", "two"]);
  cache.set("first", "one", at(4), at(60));
  cache.set("third", "3", at(5), at(60));
  const found = ["first", "second", "third"].map((key) => cache.get(key, at(6)));
  expect(found).toEqual(["one", undefined, "3"]);
});
