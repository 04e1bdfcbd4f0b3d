import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createTaint, type Departure } from "../../../src/pki/authority/new-taint.ts";
import { Schedule } from "../../../src/pki/authority/schedule.ts";
import { SigningAuthority } from "../../../src/pki/authority/signing-authority.ts";
import { Taint } from "../../../src/pki/authority/taint.ts";
import {
  type Phases,
  phasesOf,
  second,
  secondOf,
  shortLengths,
  stub,
  taintsIn,
} from "../../testkit/ca/timeline.ts";

const own: Phases = [0, 20, 1000, 1110];

const tainted = (phases: Phases, departure: Departure, now: number, lengths = shortLengths) => {
  const { id, taintedAt, retiresAt } = createTaint(
    { authorities: [stub("aa", phases)], taints: [] },
    "aa",
    departure,
    lengths,
    second(now),
  );
  return { id, taintedAt: secondOf(taintedAt), retiresAt: secondOf(retiresAt) };
};

describe("a taint", () => {
  test.each<[string, Departure, number, number, number]>([
    ["while it signs", "immediately", 500, 500, 500],
    ["within a second", "immediately", 500.9, 500, 500],
    ["before it was published", "immediately", -5, -5, -5],
    ["before it signs", "immediately", 5, 5, 5],
    ["after it signed", "immediately", 1050, 1050, 1050],
    ["after it retired", "immediately", 2000, 2000, 1110],
    ["while it signs", "with-last-leaf", 500, 500, 620],
    ["within a second", "with-last-leaf", 500.9, 500, 620],
    ["shortly before its end", "with-last-leaf", 995, 995, 1110],
    ["after it signed", "with-last-leaf", 1050, 1050, 1110],
    ["after it retired", "with-last-leaf", 2000, 2000, 1110],
    ["before it was published", "with-last-leaf", -5, -5, -5],
    ["when nobody can have seen it sign", "with-last-leaf", 9, 9, 9],
    ["when a reader that is behind may see it sign", "with-last-leaf", 10, 10, 130],
  ])("%s, %s, at %d", (_, departure, now, taintedAt, retiresAt) => {
    expect(tainted(own, departure, now)).toEqual({ id: "aa", taintedAt, retiresAt });
  });

  test("never outlasts the authority's own schedule, however much the lengths have grown", () => {
    const lengths = { propagationSeconds: 10_000, longestLeafSeconds: 10_000 };
    for (const now of [-5, 5, 10, 500, 1050, 2000]) {
      const { retiresAt } = tainted(own, "with-last-leaf", now, {
        ...shortLengths,
        ...lengths,
      });
      expect(retiresAt).toBeLessThanOrEqual(1110);
    }
  });

  test.each<[Departure, number, Departure, number, number]>([
    ["with-last-leaf", 500, "immediately", 550, 550],
    ["immediately", 550, "with-last-leaf", 600, 550],
    ["with-last-leaf", 500, "with-last-leaf", 501, 620],
  ])("made %s at %d, then %s at %d, lets the root leave at %d", (a, first, b, again, end) => {
    const authorities = [stub("aa", own)];
    const taints: Taint[] = [];
    for (const [departure, now] of [
      [a, first],
      [b, again],
    ] as const) {
      const state = { authorities, taints };
      taints.push(createTaint(state, "aa", departure, shortLengths, second(now)));
    }
    const [effective] = Taint.apply(authorities, taints);
    expect(effective && secondOf(effective.schedule.retiresAt)).toBe(end);
  });

  test("waits for the leaves that it has signed in place of a tainted one, before its own time", () => {
    const state = { authorities: [current, successor], taints: taintsIn("aa 750") };
    const { retiresAt } = createTaint(state, "bb", "with-last-leaf", shortLengths, second(760));
    expect(secondOf(retiresAt)).toBe(880);
  });

  test("waits for leaves from before the longest validity was shortened", () => {
    const { retiresAt } = tainted(own, "with-last-leaf", 500, {
      ...shortLengths,
      longestLeafSeconds: 1,
    });
    expect(retiresAt).toBeGreaterThanOrEqual(500 + shortLengths.longestLeafSeconds);
  });
});

describe("an authority's schedule under a taint", () => {
  test.each<[string, number, number, Phases]>([
    ["that stops it and removes its root", 500, 500, [0, 20, 20, 500]],
    ["that leaves its root for its last leaf", 500, 620, [0, 20, 20, 620]],
    ["from before it signed", 5, 5, [0, 5, 5, 5]],
    ["from before it was published", -5, -5, [-5, -5, -5, -5]],
    ["that asks for more than its own schedule", 5000, 9000, [0, 20, 20, 1110]],
    ["that only shortens its verifying phase", 1000, 1050, [0, 20, 20, 1050]],
  ])("%s", (_, taintedAt, retiresAt, expected) => {
    const [authority] = Taint.apply([stub("aa", own)], taintsIn(`aa ${taintedAt} ${retiresAt}`));
    expect(authority && phasesOf(authority.schedule)).toEqual(expected);
  });

  test.each([
    ["of another id", "bb"],
    ["of a longer id", "aaaa"],
    ["of its id in capitals", "AA"],
  ])("is its own when the taint is %s", (_, id) => {
    expect(Taint.apply([stub("aa", own)], taintsIn(`${id} 5`))).toEqual([stub("aa", own)]);
  });
});

/** The authority that signs at each of these seconds; `-` where none does. */
const signersAt = (
  authorities: readonly ReturnType<typeof stub>[],
  taints: string,
  seconds: readonly number[],
): string =>
  seconds
    .map(
      (n) => SigningAuthority.at(Taint.apply(authorities, taintsIn(taints)), second(n))?.id ?? "-",
    )
    .join(" ");

const current = stub("aa", own);
const successor = stub("bb", [700, 810, 1810, 1920]);
const another = stub("cc", [740, 900, 1900, 2010]);
const twin = stub("dd", [0, 15, 1000, 1110]);
const future = stub("ee", [760, 870, 1870, 1980]);
const later = stub("ff", [765, 900, 1900, 2010]);
const past = stub("00", [-900, -800, 600, 990]);

describe("where a taint leaves no authority to sign", () => {
  test.each<[string, readonly ReturnType<typeof stub>[], string, string]>([
    ["without a taint each signs in its time", [current, successor], "", "aa aa aa bb bb"],
    ["a published successor signs at once", [current, successor], "aa 750", "bb bb bb bb bb"],
    ["a future one signs once it is published", [current, future], "aa 750", "- - ee ee ee"],
    ["none signs when no other exists", [current], "aa 750 860", "- - - - -"],
    [
      "only the first of two signs early",
      [current, successor, another],
      "aa 750 860",
      "bb bb bb bb cc",
    ],
    [
      "a twin signs on, and no successor early",
      [current, twin, successor],
      "aa 750",
      "dd dd dd bb bb",
    ],
    ["a tainted successor does not take over", [current, successor], "aa 750, bb 740", "- - - - -"],
    [
      "the successor of a tainted one does",
      [current, successor, later],
      "aa 750, bb 762",
      "- - ff ff ff",
    ],
    ["a taint of a future one has no part in it", [current, successor], "bb 750", "aa aa aa aa aa"],
    ["a taint of a past one has none", [past, current, successor], "00 600 750", "aa aa aa bb bb"],
  ])("%s", (_, authorities, taints, expected) => {
    expect(signersAt(authorities, taints, [740, 759, 780, 850, 950])).toBe(expected);
  });

  test("the successor signs when the last of the others stops, if that is later", () => {
    const predecessor = stub("00", [-900, -800, 760, 870]);
    const signers = signersAt([predecessor, current, successor], "aa 750", [755, 780]);
    expect(signers).toBe("00 bb");
  });

  test("the successor that was published first takes over, because most verifiers know it", () => {
    const known = stub("ff", [600, 800, 1800, 1910]);
    const signers = signersAt([current, known, successor], "aa 750", [755]);
    expect(signers).toBe("ff");
  });
});

const phases: fc.Arbitrary<Phases> = fc
  .tuple(
    fc.nat(500),
    fc.nat(300),
    fc.integer({ min: 1, max: 900 }),
    fc.integer({ min: 1, max: 300 }),
  )
  .map(([p, s, u, r]) => [p, p + s, p + s + u, p + s + u + r]);
const authorities = fc
  .array(phases, { maxLength: 5 })
  .map((rows) => rows.map((row, i) => stub(`a${i}`, row)));
const taints = fc
  .uniqueArray(fc.tuple(fc.nat(6), fc.integer({ min: -50, max: 2000 }), fc.nat(900)), {
    maxLength: 4,
    selector: ([i]) => i,
  })
  .map((rows) => rows.flatMap(([i, from, n]) => taintsIn(`a${i} ${from} ${from + n}`)));

describe("for any taints", () => {
  test("a tainted authority signs no more, and no root stays longer", () => {
    fc.assert(
      fc.property(authorities, taints, (all, said) => {
        for (const [i, { id, schedule }] of Taint.apply(all, said).entries()) {
          const before = phasesOf(all[i]?.schedule ?? schedule);
          const after = phasesOf(schedule);
          expect(after[0]).toBeLessThanOrEqual(before[0]);
          expect(after[2]).toBeLessThanOrEqual(before[2]);
          expect(after[3]).toBeLessThanOrEqual(before[3]);
          const [publishedFrom, signsFrom, signsUntil, retiresAt] = after;
          expect(signsFrom).toBeLessThanOrEqual(signsUntil);
          expect(Math.max(signsUntil, publishedFrom)).toBeLessThanOrEqual(retiresAt);
          const taint = said.find((each) => each.id === id);
          if (!taint) continue;
          expect(Schedule.phaseAt(schedule, taint.taintedAt)).not.toBe("signing");
          expect(schedule.signsUntil <= taint.taintedAt).toBe(true);
          expect(schedule.retiresAt <= taint.retiresAt).toBe(true);
        }
      }),
    );
  });

  test("an authority without a taint keeps its place in the bundle, and never signs before it is in it", () => {
    fc.assert(
      fc.property(authorities, taints, (all, said) => {
        for (const [i, { id, schedule }] of Taint.apply(all, said).entries()) {
          if (said.some((taint) => taint.id === id)) continue;
          const [publishedFrom, signsFrom, signsUntil, retiresAt] = phasesOf(
            all[i]?.schedule ?? schedule,
          );
          expect(phasesOf(schedule).with(1, signsFrom)).toEqual([
            publishedFrom,
            signsFrom,
            signsUntil,
            retiresAt,
          ]);
          expect(secondOf(schedule.signsFrom)).toBeGreaterThanOrEqual(publishedFrom);
          expect(secondOf(schedule.signsFrom)).toBeLessThanOrEqual(signsFrom);
        }
      }),
    );
  });

  test("the order of records and of taints does not matter", () => {
    fc.assert(
      fc.property(authorities, taints, (all, said) => {
        const once = Taint.apply(all, said);
        expect(Taint.apply(all.toReversed(), said.toReversed()).toReversed()).toEqual(once);
      }),
    );
  });
});
