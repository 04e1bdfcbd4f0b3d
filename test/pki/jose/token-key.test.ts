import { describe, expect, test } from "vitest";
import type { Schedule } from "../../../src/pki/authority/schedule.ts";
import { publishedAheadSeconds, TokenKey } from "../../../src/pki/jose/token-key.ts";
import { addSeconds } from "../../../src/pki/x509/validity.ts";
import { type KeyMutation, simulateTokenKeys } from "../../simulation/token-keys.ts";
import { firstViolation } from "../../simulation/violation.ts";

const firstSeed = 1 + Math.floor(Math.random() * 1e9);

test("no relying party refuses a live token in 1,000 histories", () => {
  expect(firstViolation(simulateTokenKeys, firstSeed, 1000)).toBeUndefined();
});

const schedule = (change: (schedule: Schedule) => Partial<Schedule>): KeyMutation => ({
  schedule: (given) => ({ ...given, ...change(given) }),
});

test.each<[string, KeyMutation]>([
  [
    "the day for which it is published",
    schedule(({ publishedFrom, signsFrom }) => ({
      publishedFrom: addSeconds(publishedFrom, -publishedAheadSeconds),
      signsFrom: addSeconds(signsFrom, -publishedAheadSeconds),
    })),
  ],
  [
    "the time until the last token has ended",
    schedule(({ signsUntil }) => ({ retiresAt: addSeconds(signsUntil, 600) })),
  ],
])("a relying party refuses one without %s", (_, mutation) => {
  const history = (seed: number): void => simulateTokenKeys(seed, mutation);
  expect(firstViolation(history, firstSeed, 5000)).toBeDefined();
});

describe("the plan", () => {
  const termsOf = (algorithm: TokenKey["algorithm"] | undefined, propagationSeconds: number) => ({
    algorithm,
    propagationSeconds,
    isMeshRunning: false,
  });
  const now = new Date("2026-11-21T12:00:00Z");
  const key = (schedule: Schedule, isTainted = false) =>
    ({ id: "k", algorithm: "ES256", spki: new Uint8Array(), schedule, isTainted }) as const;
  const first = TokenKey.plan([], termsOf("ES256", 600), now).mint as Schedule;

  test("has the first key of a running mesh wait for those who follow the bundle", () => {
    const terms = { ...termsOf("ES256", 120), isMeshRunning: true };
    const { publishedFrom, signsFrom } = TokenKey.plan([], terms, now).mint as Schedule;
    expect(publishedFrom).toEqual(addSeconds(now, 120));
    // They ask every five minutes, and a cache may keep an answer for five.
    expect(signsFrom.getTime() - publishedFrom.getTime()).toBeGreaterThanOrEqual(600_000);
  });

  test("has the first key sign after one propagation interval", () => {
    expect(first.publishedFrom).toEqual(addSeconds(now, 600));
    expect(first.signsFrom).toEqual(addSeconds(now, 600));
  });

  test("publishes each later key for a day before it signs", () => {
    expect(
      TokenKey.plan([key(first)], termsOf("ES256", 600), addSeconds(now, 599)).mint,
    ).toBeUndefined();
    const { mint } = TokenKey.plan([key(first)], termsOf("ES256", 600), addSeconds(now, 600));
    const ahead = (mint?.signsFrom.getTime() ?? 0) - (mint?.publishedFrom.getTime() ?? 0);
    expect(ahead).toBe(1000 * publishedAheadSeconds);
    expect(publishedAheadSeconds).toBeGreaterThan(24 * 3600);
    expect(mint?.signsUntil).toEqual(addSeconds(first.signsUntil, 28 * 24 * 3600));
  });

  test("has the first key sign beside a successor of the same second, whatever their ids", () => {
    const at = TokenKey.plan([], termsOf("ES256", 0), now).mint as Schedule;
    const next = TokenKey.plan([key(at)], termsOf("ES256", 0), now).mint as Schedule;
    expect(next.publishedFrom).toEqual(at.publishedFrom);
    for (const id of ["a", "z"]) {
      const both = [key(at), { ...key(next), id }];
      expect(TokenKey.signingAt(both, "ES256", now)?.id).toBe("k");
      expect(TokenKey.signingAgainFrom(both, now)).toBeUndefined();
    }
  });

  test("has the key sign that ends first, though its spare is known to relying parties", () => {
    const next = TokenKey.plan([key(first)], termsOf("ES256", 600), addSeconds(now, 600))
      .mint as Schedule;
    for (const id of ["a", "z"]) {
      const both = [{ ...key(next), id }, key(first)];
      expect(TokenKey.signingAt(both, "ES256", next.signsFrom)?.id).toBe("k");
      expect(TokenKey.signingAt(both, "ES256", addSeconds(first.signsUntil, -1))?.id).toBe("k");
      expect(TokenKey.signingAt(both, "ES256", first.signsUntil)?.id).toBe(id);
    }
  });

  test("has the keys of the former algorithm sign until relying parties know one of the new", () => {
    const later = addSeconds(now, 3600);
    const { mint } = TokenKey.plan([key(first)], termsOf("RS256", 600), later);
    const both = [key(first), { ...key(mint as Schedule), id: "new", algorithm: "RS256" } as const];
    const known = mint?.signsFrom ?? now;
    expect(TokenKey.signingAt(both, "RS256", later)?.id).toBe("k");
    expect(TokenKey.signingAt(both, "RS256", addSeconds(known, -1))?.id).toBe("k");
    expect(TokenKey.signingAt(both, "RS256", known)?.id).toBe("new");
  });

  test("has the second of two first keys wait for relying parties, even if the first is tainted", () => {
    const second = TokenKey.plan([], termsOf("ES256", 600), addSeconds(now, 300)).mint as Schedule;
    const both = [{ ...key(first, true), id: "first" }, key(second)];
    const known = addSeconds(second.publishedFrom, publishedAheadSeconds);
    expect(TokenKey.signingAt(both, "ES256", addSeconds(known, -1))).toBeUndefined();
    expect(TokenKey.signingAt(both, "ES256", known)?.id).toBe("k");
  });

  test("forgets a key once nobody can hold a set that has it, and every reader sees one after it", () => {
    const forgotten = addSeconds(first.retiresAt, publishedAheadSeconds + 600);
    const { mint } = TokenKey.plan(
      [key(first)],
      termsOf("ES256", 600),
      addSeconds(forgotten, -1200),
    );
    const next = { ...key(mint as Schedule), id: "next" };
    const pruned = (at: Date, ...after: (typeof next)[]) =>
      TokenKey.plan([key(first), ...after], termsOf("ES256", 600), at).prune;
    expect(pruned(addSeconds(forgotten, -1), next)).toEqual([]);
    expect(pruned(forgotten, next)).toEqual(["k"]);
    // Whoever misses it and sees none yet would have the next key sign unknown.
    expect(pruned(forgotten)).toEqual([]);
    const late = TokenKey.plan([key(first)], termsOf("ES256", 600), forgotten).mint as Schedule;
    expect(pruned(forgotten, { ...key(late), id: "late" })).toEqual([]);
    expect(TokenKey.plan([key(first)], termsOf(undefined, 600), forgotten).prune).toEqual(["k"]);
  });

  test("makes no key where no token is issued", () => {
    expect(TokenKey.plan([], termsOf(undefined, 600), now).mint).toBeUndefined();
  });

  test("has a taint end a key at once, though no other is known to relying parties", () => {
    const later = addSeconds(now, 3600);
    expect(TokenKey.signingAt([key(first)], "ES256", later)).toBeDefined();
    expect(TokenKey.signingAt([key(first, true)], "ES256", later)).toBeUndefined();
    const { mint } = TokenKey.plan([key(first, true)], termsOf("ES256", 600), later);
    expect(mint?.signsFrom).toEqual(addSeconds(later, 600 + publishedAheadSeconds));
    expect(TokenKey.signingAgainFrom([key(first)], later)).toBeUndefined();
    expect(TokenKey.signingAgainFrom([key(first, true)], later)).toBeUndefined();
    const both = [key(first, true), { ...key(mint as Schedule), id: "next" }];
    expect(TokenKey.signingAgainFrom(both, later)).toEqual(mint?.signsFrom);
    expect(TokenKey.signingAgainFrom(both, mint?.signsFrom as Date)).toBeUndefined();
  });

  test("says from when a key signs again after the last one has ended", () => {
    const ended = first.signsUntil;
    const next = TokenKey.plan([key(first)], termsOf("ES256", 600), ended).mint as Schedule;
    const both = [key(first), { ...key(next), id: "next" }];
    expect(TokenKey.signingAgainFrom(both, addSeconds(ended, -1))).toBeUndefined();
    expect(TokenKey.signingAt(both, "ES256", ended)).toBeUndefined();
    expect(TokenKey.signingAgainFrom(both, ended)).toEqual(next.signsFrom);
  });
});

test.each(["ES256", "RS256"] as const)(
  "a key of %s is a JWK without a private member",
  async (algorithm) => {
    const at = new Date("2026-11-21T12:00:00Z");
    const schedule = { publishedFrom: at, signsFrom: at, signsUntil: at, retiresAt: at };
    const { key } = await TokenKey.generate(algorithm, schedule);
    const jwk = await TokenKey.toJwk(key);
    const members = algorithm === "ES256" ? ["crv", "x", "y"] : ["n", "e"];
    expect(Object.keys(jwk).toSorted()).toEqual(["alg", "kid", "kty", ...members].toSorted());
  },
);
