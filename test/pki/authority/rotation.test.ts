import { describe, expect, test } from "vitest";
import {
  type AuthorityRoot,
  RotationStep,
  rootSince,
} from "../../../src/pki/authority/rotation.ts";
import type { SigningAuthority } from "../../../src/pki/authority/signing-authority.ts";
import { TrustBundle } from "../../../src/pki/authority/trust-bundle.ts";
import { phasesOf, second, shortLengths, stub, taintsIn } from "../../testkit/ca/timeline.ts";

const plan = (
  now: number,
  authorities: readonly SigningAuthority[],
  taints = "",
  additionalRoots: readonly SigningAuthority[] = [],
  authorityRoot: AuthorityRoot = "self",
): readonly RotationStep[] =>
  RotationStep.plan(
    { authorities, additionalRoots, taints: taintsIn(taints), authorityRoot },
    shortLengths,
    second(now),
  );

/** A step as text: `mint <cause> <published> <signs>` or `prune <id>`. */
const stepText = (step: RotationStep): string => {
  if (step.act === "prune") return `prune ${step.id}`;
  if (step.act === "ask") return `ask ${step.cause}`;
  const [publishedFrom, signsFrom] = phasesOf(step.schedule);
  return `mint ${step.cause} ${publishedFrom} ${signsFrom}`;
};

const current = stub("aa", [0, 20, 1000, 1110]);
const successor = stub("bb", [700, 810, 1810, 1920]);
const twin = stub("cc", [1, 21, 1001, 1111]);
const late = stub("dd", [850, 1000, 2000, 2110]);

describe("a taint", () => {
  test.each<[string, number, readonly SigningAuthority[], string, string]>([
    ["that does not exist mints nothing", 400, [current], "", ""],
    ["of the only authority mints at once", 400, [current], "aa 400", "mint taint 410 410"],
    ["makes a late cron mint as well", 439, [current], "aa 400", "mint taint 449 449"],
    ["mints nothing where there is a successor", 750, [current, successor], "aa 750", ""],
    ["of a twin mints nothing", 400, [current, twin], "aa 400", ""],
    ["of the successor mints in time", 750, [current, successor], "bb 750", "mint due 760 870"],
    ["of a late successor mints at once", 900, [current, late], "dd 900", "mint taint 910 1000"],
    ["of all mints one", 750, [current, successor], "aa 740, bb 750", "mint taint 760 760"],
    ["of one that signs no more changes nothing", 1200, [current, successor], "aa 1000 1050", ""],
    ["of an unknown authority changes nothing", 400, [current], "ff 400", ""],
    ["does not hide that the cron was late", 990, [current], "aa 990", "mint overdue 1000 1000"],
  ])("%s", (_, now, authorities, taints, expected) => {
    expect(plan(now, authorities, taints).map(stepText).join()).toBe(expected);
  });

  test("gives the same plan for every order of the records", () => {
    const expected = plan(750, [current, successor], "aa 740, bb 750");
    expect(plan(750, [successor, current], "bb 750, aa 740")).toEqual(expected);
  });
});

describe("pruning", () => {
  const next = stub("cc", [1700, 1810, 2810, 2920]);

  test.each<[string, number, string, string]>([
    ["keeps a retired authority while its end is the bundle's latest change", 1200, "", ""],
    ["keeps it while a reader may not know the next change", 1709, "", ""],
    ["deletes it once every reader knows the next change", 1710, "", "prune aa"],
    ["keeps a tainted authority while its own schedule lasts", 1109, "aa 500", ""],
    ["deletes a tainted authority once that is over too", 1710, "aa 500", "prune aa"],
    ["does not come earlier for another's taint", 1109, "bb 1100", "mint taint 1119 1119"],
    // Such a change may be of the configuration alone.
    ["does not count a change that a taint made", 1150, "bb 1120", "mint taint 1160 1160"],
  ])("%s", (_, now, taints, expected) => {
    const authorities = [current, successor, next].slice(0, now < 1700 ? 2 : 3);
    expect(plan(now, authorities, taints).map(stepText).join()).toBe(expected);
  });

  test("counts the change that an additional root makes, and never deletes that root", () => {
    const root = stub("dd", [1150, 1150, 1150, 1300]);
    expect(plan(1159, [current, successor], "", [root])).toEqual([]);
    expect(plan(1160, [current, successor], "", [root]).map(stepText)).toEqual(["prune aa"]);
    expect(plan(1200, [successor], "", [{ ...root, schedule: current.schedule }])).toEqual([]);
  });
});

describe("pruning under the root of another CA", () => {
  const intermediate = (id: string, from: number) =>
    stub(id, [from, from + 20, from + 1000, from + 1110], ["0f"]);
  const pruned = (now: number, authorities: readonly SigningAuthority[]): readonly string[] =>
    plan(now, authorities, "", [], "offline").map(stepText);

  test("deletes a retired intermediate once every reader knows the next, and leaves the bundle's number", () => {
    const all = [intermediate("aa", 0), intermediate("bb", 700), intermediate("cc", 1400)];
    expect(pruned(1409, all)).toEqual([]);
    expect(pruned(1410, all)).toEqual(["prune aa"]);
    const [, newer, newest] = all.map((_, i) =>
      TrustBundle.sequence([TrustBundle.historyAt(all.slice(i), [], second(1410))]),
    );
    expect([newer, newest]).toEqual([second(1400).getTime(), second(1400).getTime()]);
  });

  test("keeps the last intermediate, and one whose root has left with it", () => {
    expect(pruned(5000, [intermediate("aa", 0)])).toEqual([]);
    const other = stub("bb", [700, 720, 4000, 6000], ["0e"]);
    expect(pruned(5000, [intermediate("aa", 0), other])).toEqual([]);
  });

  test("leaves few records after any number of rotations", () => {
    let authorities: readonly SigningAuthority[] = [];
    for (let i = 0; i < 600; i++) {
      authorities = [...authorities, intermediate(`${i}`.padStart(4, "0"), 700 * i)];
      const gone = new Set(pruned(700 * i + 500, authorities));
      authorities = authorities.filter(({ id }) => !gone.has(`prune ${id}`));
      expect(authorities.length).toBeLessThan(4);
    }
  });

  test("takes a store that has grown for long at once", () => {
    const grown = Array.from({ length: 40 }, (_, i) => intermediate(`${10 + i}`, 700 * i));
    expect(pruned(700 * 40, grown)).toHaveLength(38);
  });
});

test("of two authorities that retire at once, one stays until the bundle has changed again", () => {
  const twin = stub("ab", [0, 20, 1000, 1110]);
  expect(plan(1200, [twin, current, successor]).map(stepText)).toEqual(["prune aa"]);
  expect(plan(1200, [current, successor, twin]).map(stepText)).toEqual(["prune aa"]);
});

test("throws without an authority, whatever other records there are", () => {
  expect(() => plan(0, [], "aa 0", [stub("dd", [0, 0, 0, 9])])).toThrow();
});

test.each<[string, readonly [from: number, until: number][], number | undefined]>([
  ["alone", [[20, 200]], 20],
  [
    "of three authorities, in any order",
    [
      [50, 200],
      [60, 210],
      [0, 100],
    ],
    0,
  ],
  [
    "of two authorities that meet",
    [
      [0, 100],
      [100, 200],
    ],
    0,
  ],
  [
    "after a gap",
    [
      [0, 99],
      [100, 200],
    ],
    100,
  ],
  ["that has left", [[0, 100]], undefined],
])("a root %s is in the bundle since %j: %s", (_, spans, since) => {
  const published = spans.map(([from, until], i) =>
    stub(`a${i}`, [from, from, from, until], ["00"]),
  );
  const found = rootSince(
    published,
    published[0]?.roots[0] as Uint8Array<ArrayBuffer>,
    second(150),
  );
  expect(found).toEqual(since === undefined ? undefined : second(since));
});
