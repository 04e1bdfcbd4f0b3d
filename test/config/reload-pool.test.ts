import { expect, test } from "vitest";
import { ReloadPool } from "../../src/config/reload-pool.ts";

/** Parts that record when they end. */
function createParts() {
  const ended: string[] = [];
  const parts = new ReloadPool<{ readonly name: string }>();
  const ask = (name: string) =>
    parts.of([name], (ending) => {
      ending.addEventListener("abort", () => ended.push(name));
      return { name };
    });
  return { parts, ask, ended };
}

test("a part stays the same object while it is asked for", () => {
  const { parts, ask, ended } = createParts();
  const first = ask("a");
  parts.commit();
  expect(ask("a")).toBe(first);
  expect(ask("a")).toBe(first);
  parts.commit();
  expect(ended).toEqual([]);
});

test("a part ends once a composition counts that has not asked for it, and begins anew after that", () => {
  const { parts, ask, ended } = createParts();
  const first = ask("a");
  parts.commit();
  ask("b");
  expect(ended).toEqual([]);
  parts.commit();
  expect(ended).toEqual(["a"]);
  expect(ask("a")).not.toBe(first);
});

test("a composition that is given up ends its new parts, and none of the former", () => {
  const { parts, ask, ended } = createParts();
  const first = ask("a");
  parts.commit();
  ask("b");
  parts.rollback();
  expect(ended).toEqual(["b"]);
  expect(ask("a")).toBe(first);
});

test("parts that are made from different values are different", () => {
  const parts = new ReloadPool<object>();
  expect(parts.of(["a", undefined, 1], () => ({}))).not.toBe(
    parts.of(["a", undefined, 2], () => ({})),
  );
});

test("maps and sets count with what they hold", () => {
  const parts = new ReloadPool<object>();
  const ask = (madeFrom: unknown) => parts.of(madeFrom, () => ({}));
  const first = ask({ serials: new Map([["01", 5]]) });
  expect(ask({ serials: new Map([["01", 5]]) })).toBe(first);
  expect(ask({ serials: new Map([["02", 5]]) })).not.toBe(first);
  expect(ask(new Set(["a"]))).not.toBe(ask(new Set(["b"])));
});
