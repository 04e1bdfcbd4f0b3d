import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { commonName, nameAllowList } from "../../src/foundation/globs.ts";

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

describe("the common name of two globs", () => {
  const globs = fc.string({ unit: fc.constantFrom("a", "b", "*"), maxLength: 4 });

  /** Every name of up to 6 letters; what two globs of 4 characters need, they find there. */
  const names = Array.from({ length: 6 }).reduce<string[]>(
    (shorter) => ["", ...shorter.flatMap((name) => [`${name}a`, `${name}b`])],
    [""],
  );

  test("is a shortest name that both match, and is missing only where none does", () => {
    fc.assert(
      fc.property(globs, globs, (one, other) => {
        const both = names.filter(
          (name) => nameAllowList([one])(name) && nameAllowList([other])(name),
        );
        const found = commonName(one, other);
        expect(found?.length).toBe(both.toSorted((a, b) => a.length - b.length)[0]?.length);
        if (found !== undefined) expect(both).toContain(found);
      }),
    );
  });
});
