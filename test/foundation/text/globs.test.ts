import { describe, expect, test } from "vitest";
import { nameAllowList } from "../../../src/foundation/text/globs.ts";

describe("globs", () => {
  test.each<[string, string[], string[]]>([
    ["*", ["*"], ["foo", "a", "x-y-z"]],
    ["a name", ["foo"], ["foo"]],
    ["a prefix", ["team-*"], ["team-", "team-a", "team-a-b"]],
    ["a suffix", ["*-prod"], ["-prod", "a-prod"]],
    ["a middle", ["a*z"], ["az", "abcz"]],
    ["several stars", ["*a*b*"], ["ab", "xaxbx"]],
    ["several", ["foo", "team-*"], ["foo", "team-x"]],
  ])("match by %s", (_, globs, namespaces) => {
    const mayUse = nameAllowList(globs);
    expect(namespaces.filter((namespace) => !mayUse(namespace))).toEqual([]);
  });

  test.each<[string, string[], string[]]>([
    ["a name", ["foo"], ["foo2", "xfoo", "fo", "", "foo\n"]],
    ["a prefix", ["team-*"], ["team", "xteam-a", ""]],
    ["a suffix", ["*-prod"], ["prod", "a-prod-b"]],
    ["several", ["foo", "team-*"], ["foo-team-x", "bar"]],
    ["nothing", [], ["foo", "a"]],
    ["a dot, which is no wildcard", ["a.c"], ["abc"]],
  ])("match no more than %s says", (_, globs, namespaces) => {
    const mayUse = nameAllowList(globs);
    expect(namespaces.filter(mayUse)).toEqual([]);
  });

  test("are matched without trying every way, however many stars an operator writes", () => {
    // Backtracking would try more ways than a test has time for.
    const mayUse = nameAllowList([`${"*a".repeat(30)}*b`]);
    expect(mayUse("a".repeat(63))).toBe(false);
  });
});
