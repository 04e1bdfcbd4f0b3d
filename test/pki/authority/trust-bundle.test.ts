import { X509Certificate } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { createAuthority } from "../../../src/pki/authority/self-signed-authority.ts";
import { bundleSequenceAt, trustBundleAt } from "../../../src/pki/authority/trust-bundle.ts";
import { inHex } from "../../testkit/der/mutation.ts";
import { authorityStub, clusterLocal, tenDays } from "../../testkit/pki/certificates.ts";

const day = (n: number): Date => new Date(Date.UTC(2026, 0, n));

/** An authority in the bundle from one day until just before another. */
const authority = (id: string, from: number, until: number, roots: readonly string[] = [id]) =>
  authorityStub(
    id,
    {
      publishedFrom: day(from),
      signsFrom: day(from),
      signsUntil: day(until),
      retiresAt: day(until),
    },
    roots,
  );

type Authorities = readonly ReturnType<typeof authority>[];
const rootsAt = (authorities: Authorities, now: Date) =>
  trustBundleAt(authorities, now).roots.map(inHex);

test("holds a root from its publication until its retirement, in every phase between", () => {
  const authorities = [authority("aa", 5, 10)];
  expect(rootsAt(authorities, new Date(day(5).getTime() - 1))).toEqual([]);
  expect(rootsAt(authorities, day(5))).toEqual(["aa"]);
  expect(rootsAt(authorities, new Date(day(10).getTime() - 1))).toEqual(["aa"]);
  expect(rootsAt(authorities, day(10))).toEqual([]);
});

test("is empty, and so is its PEM, when there is no authority", () => {
  expect(trustBundleAt([], day(1))).toEqual({ roots: [], pem: "" });
});

test("has its roots in the order of publication, then of ids, in any order of records", () => {
  const authorities = [
    authority("cc", 1, 30),
    authority("ab", 2, 30),
    authority("aa", 3, 30),
    authority("bb", 3, 30),
  ];
  const expected = rootsAt(authorities, day(10));
  expect(expected).toEqual(["cc", "ab", "aa", "bb"]);
  fc.assert(
    fc.property(fc.shuffledSubarray(authorities, { minLength: 4 }), (shuffled) => {
      expect(rootsAt(shuffled, day(10))).toEqual(expected);
    }),
  );
});

test("holds a shared root once, in the place that the first authority gives it", () => {
  const authorities = [
    authority("aa", 2, 30, ["0b", "0a"]),
    authority("bb", 1, 30, ["0c", "0a"]),
    authority("cc", 3, 30, ["0a", "0d"]),
  ];
  expect(rootsAt(authorities, day(10))).toEqual(["0c", "0a", "0b", "0d"]);
});

test("keeps a shared root until the last authority that needs it retires", () => {
  const authorities = [authority("aa", 1, 10, ["0a"]), authority("bb", 2, 20, ["0a"])];
  expect(rootsAt(authorities, day(15))).toEqual(["0a"]);
  expect(rootsAt(authorities, day(20))).toEqual([]);
});

test("does not reorder the list that it was given", () => {
  const authorities = [authority("bb", 2, 30), authority("aa", 1, 30)];
  trustBundleAt(authorities, day(10));
  expect(authorities.map(({ id }) => id)).toEqual(["bb", "aa"]);
});

test("is PEM that node:crypto reads root by root", async () => {
  const create = async () => (await createAuthority(clusterLocal, "EC-P256", tenDays)).authority;
  const authorities = [await create(), await create()];
  const { roots, pem } = trustBundleAt(authorities, tenDays.signsFrom);
  const blocks = pem.split(/(?<=-----END CERTIFICATE-----\n)/);
  const oracle = blocks.map((block) => inHex(new X509Certificate(block).raw));
  expect(oracle).toEqual(roots.map(inHex));
});

const sequence = (n: number): number => day(n).getTime();

test("the sequence is 0 before anything was published, then the last publication or retirement", () => {
  const authorities = [authority("aa", 5, 20), authority("bb", 10, 30)];
  expect(bundleSequenceAt([], [], day(5))).toBe(0);
  expect(
    [4, 5, 9, 10, 19, 20, 29, 31].map((n) => bundleSequenceAt(authorities, [], day(n))),
  ).toEqual([
    0,
    sequence(5),
    sequence(5),
    sequence(10),
    sequence(10),
    sequence(20),
    sequence(20),
    sequence(30),
  ]);
});

const days = fc.tuple(fc.nat({ max: 40 }), fc.nat({ max: 40 }), fc.nat({ max: 9 }));

test("the sequence never falls, and grows whenever the roots change", () => {
  fc.assert(
    fc.property(fc.array(days, { maxLength: 4 }), (rows) => {
      const authorities = rows.map(([from, length, root], i) =>
        authority(`a${i}`, from, from + length + 1, [`0${root}`]),
      );
      for (let n = 1; n < 90; n++) {
        const [before, after] = [
          bundleSequenceAt(authorities, [], day(n - 1)),
          bundleSequenceAt(authorities, [], day(n)),
        ];
        const isSame =
          rootsAt(authorities, day(n - 1)).join() === rootsAt(authorities, day(n)).join();
        if (isSame) expect(after).toBeGreaterThanOrEqual(before);
        else expect(after).toBeGreaterThan(before);
      }
    }),
  );
});
