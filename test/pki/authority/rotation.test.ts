import { describe, expect, test } from "vitest";
import { planRotation, type RotationStep } from "../../../src/pki/authority/rotation.ts";
import type { SigningAuthority } from "../../../src/pki/authority/signing-authority.ts";
import type { Taint } from "../../../src/pki/authority/taint.ts";
import { phasesOf, second, shortLengths, stub } from "../../testkit/ca/timeline.ts";

const taintOf = (id: string, taintedAt: number, retiresAt = taintedAt): Taint => ({
  id,
  taintedAt: second(taintedAt),
  retiresAt: second(retiresAt),
});

const plan = (
  now: number,
  authorities: readonly SigningAuthority[],
  taints: readonly Taint[] = [],
  additionalRoots: readonly SigningAuthority[] = [],
): readonly RotationStep[] =>
  planRotation({ authorities, additionalRoots, taints }, shortLengths, second(now));

/** `mint <cause> <published> <signs>` and `prune <id>`. */
const said = (step: RotationStep): string => {
  if (step.act === "prune") return `prune ${step.id}`;
  const [publishedFrom, signsFrom] = phasesOf(step.schedule);
  return `mint ${step.cause} ${publishedFrom} ${signsFrom}`;
};

const current = stub("aa", [0, 20, 1000, 1110]);
const successor = stub("bb", [700, 810, 1810, 1920]);

describe("a taint", () => {
  test.each<[string, number, readonly SigningAuthority[], readonly Taint[], string[]]>([
    ["is no reason to mint when there is none", 400, [current], [], []],
    [
      "of the only authority mints at once",
      400,
      [current],
      [taintOf("aa", 400)],
      ["mint taint 410 410"],
    ],
    [
      "is acted upon by a cron that comes late",
      439,
      [current],
      [taintOf("aa", 400)],
      ["mint taint 449 449"],
    ],
    [
      "of the one that signs mints nothing when a successor is there",
      750,
      [current, successor],
      [taintOf("aa", 750)],
      [],
    ],
    [
      "of a twin mints nothing",
      400,
      [current, stub("cc", [1, 21, 1001, 1111])],
      [taintOf("aa", 400)],
      [],
    ],
    [
      "of the successor mints another in good time",
      750,
      [current, successor],
      [taintOf("bb", 750)],
      ["mint due 760 870"],
    ],
    [
      "of the successor mints another in haste",
      900,
      [current, stub("bb", [850, 1000, 2000, 2110])],
      [taintOf("bb", 900)],
      ["mint taint 910 1000"],
    ],
    [
      "of all mints one",
      750,
      [current, successor],
      [taintOf("aa", 740), taintOf("bb", 750)],
      ["mint taint 760 760"],
    ],
    [
      "of an authority that is over changes nothing",
      1200,
      [current, successor],
      [taintOf("aa", 1000, 1050)],
      [],
    ],
    ["of an unknown authority changes nothing", 400, [current], [taintOf("ff", 400)], []],
    [
      "does not hide that the cron was late anyway",
      990,
      [current],
      [taintOf("aa", 990)],
      ["mint overdue 1000 1000"],
    ],
  ])("%s", (_, now, authorities, taints, expected) => {
    expect(plan(now, authorities, taints).map(said)).toEqual(expected);
  });

  test("is planned for alike, however often and in whatever order the records come", () => {
    const taints = [taintOf("aa", 740), taintOf("bb", 750)];
    const expected = plan(750, [current, successor], taints);
    expect(plan(750, [successor, current], taints.toReversed())).toEqual(expected);
  });
});

describe("pruning", () => {
  const next = stub("cc", [1700, 1810, 2810, 2920]);

  test.each<[string, number, readonly Taint[], string[]]>([
    ["leaves a retired authority while its end is the bundle's latest change", 1200, [], []],
    ["leaves it while a reader may not know of the change that came after", 1709, [], []],
    ["takes it once every reader knows that the bundle has changed again", 1710, [], ["prune aa"]],
    [
      "leaves a tainted authority whose root is gone while its own schedule lasts",
      1109,
      [taintOf("aa", 500)],
      [],
    ],
    [
      "takes a tainted authority once its own schedule is over too",
      1710,
      [taintOf("aa", 500)],
      ["prune aa"],
    ],
    [
      "is not hastened by another's taint before that",
      1109,
      [taintOf("bb", 1100)],
      ["mint taint 1119 1119"],
    ],
    [
      "takes note of a change that a taint made",
      1150,
      [taintOf("bb", 1120)],
      ["mint taint 1160 1160", "prune aa"],
    ],
  ])("%s", (_, now, taints, expected) => {
    expect(
      plan(now, [current, successor, next].slice(0, now < 1700 ? 2 : 3), taints).map(said),
    ).toEqual(expected);
  });

  test("takes note of an additional root, which itself is never pruned", () => {
    const root = stub("dd", [1150, 1150, 1150, 1300]);
    expect(plan(1159, [current, successor], [], [root])).toEqual([]);
    expect(plan(1160, [current, successor], [], [root]).map(said)).toEqual(["prune aa"]);
    expect(plan(1200, [successor], [], [{ ...root, schedule: current.schedule }])).toEqual([]);
  });

  test("is not hastened by an additional root that the bundle holds already", () => {
    const root = stub("dd", [1150, 1150, 1150, 1300], ["bb"]);
    expect(plan(1200, [current, successor], [], [root])).toEqual([]);
  });
});

test("without an authority there is nothing to plan from, whatever else there is", () => {
  expect(() => plan(0, [], [taintOf("aa", 0)], [stub("dd", [0, 0, 0, 9])])).toThrow();
});
