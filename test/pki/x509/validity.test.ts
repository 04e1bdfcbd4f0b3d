import fc from "fast-check";
import { expect, test } from "vitest";
import { addSeconds, Validity, wholeSeconds } from "../../../src/pki/x509/validity.ts";
import { readVectors } from "../../testkit/pki/vectors.ts";
import { refusalOf } from "../../testkit/refusal.ts";

interface Vector {
  readonly name: string;
  /** Seconds, within an int64. */
  readonly requested: string;
  /** Seconds from now until the authority's notAfter. Absent for ten years. */
  readonly authorityLives?: number;
  /** Seconds from now until the leaf's notAfter. */
  readonly lives?: number;
  /** Seconds from the leaf's notBefore until now. Absent for two minutes. */
  readonly backdated?: number;
  readonly reason?: string;
}

const vectors = readVectors<Vector>("leaf-validity");
const istio = { defaultSeconds: 86_400, maximumSeconds: 7_776_000 };
const now = new Date("2026-03-01T12:00:00.000Z");

const authorityThatLives = (seconds = 315_360_000, from = now): Validity => ({
  notBefore: addSeconds(from, -1_000_000),
  notAfter: addSeconds(from, seconds),
});

const tenthOf = (seconds: number): number => Math.min(120, Math.floor(seconds / 10));

const validity = ({ requested, authorityLives }: Vector): Validity =>
  Validity.ofLeaf(BigInt(requested), istio, authorityThatLives(authorityLives), now);

test.each(vectors.filter(({ reason }) => !reason))("$name", (vector) => {
  expect(validity(vector)).toEqual({
    notBefore: addSeconds(now, -(vector.backdated ?? 120)),
    notAfter: addSeconds(now, vector.lives ?? 0),
  });
});

test.each(vectors.filter(({ reason }) => reason))("refuses $name", async (vector) => {
  expect(await refusalOf(() => validity(vector))).toMatchObject({ reason: vector.reason });
});

test("refuses with the requested lifetime and the maximum", async () => {
  const requestedSeconds = 2n ** 63n - 1n;
  const refusal = await refusalOf(() =>
    Validity.ofLeaf(requestedSeconds, istio, authorityThatLives(), now),
  );
  expect(refusal).toEqual({
    reason: "lifetime-too-long",
    requestedSeconds,
    maximumSeconds: 7_776_000,
  });
});

test("any validity has whole seconds, begins a tenth of the life back, and ends within the authority's", () => {
  const requests = fc.bigInt({ min: -(2n ** 63n), max: 7_776_000n });
  const instants = fc.date({
    min: new Date("1970-01-01"),
    max: new Date("9000-01-01"),
    noInvalidDate: true,
  });
  const authorities = fc.integer({ min: 1, max: 10 ** 9 });
  fc.assert(
    fc.property(requests, instants, authorities, (requested, instant, authorityLives) => {
      const start = wholeSeconds(instant);
      const authority = authorityThatLives(authorityLives, start);
      const { notBefore, notAfter } = Validity.ofLeaf(requested, istio, authority, instant);
      const seconds = requested > 0n ? Number(requested) : istio.defaultSeconds;
      const life = Math.min(seconds, authorityLives);
      expect(notBefore.getTime()).toBe(start.getTime() - tenthOf(life) * 1000);
      expect(notAfter.getTime()).toBe(start.getTime() + life * 1000);
      expect(notAfter.getTime() % 1000).toBe(0);
    }),
  );
});

test("an authority can sign in the second before its notAfter", () => {
  const justBefore = new Date("2026-03-01T11:59:59.999Z");
  const { notAfter } = Validity.ofLeaf(3600n, istio, authorityThatLives(0), justBefore);
  expect(notAfter).toEqual(now);
});
