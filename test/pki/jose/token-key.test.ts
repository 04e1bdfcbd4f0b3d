import { describe, expect, test } from "vitest";
import type { Schedule } from "../../../src/pki/authority/schedule.ts";
import { publishedAheadSeconds, TokenKey } from "../../../src/pki/jose/token-key.ts";
import { addSeconds } from "../../../src/pki/x509/validity.ts";
import { type KeyMutation, simulateTokenKeys } from "../../simulation/token-keys.ts";
import { firstViolation } from "../../simulation/violation.ts";

test("no relying party refuses a live token in 400 histories", () => {
  expect(firstViolation(simulateTokenKeys, 1, 400)).toBeUndefined();
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
  expect(firstViolation(history, 1, 5000)).toBeDefined();
});

describe("the plan", () => {
  const terms = { algorithm: "ES256", propagationSeconds: 600, isMeshRunning: false } as const;
  const now = new Date("2026-11-21T12:00:00Z");
  const key = (schedule: Schedule, isTainted = false) =>
    ({ id: "k", algorithm: "ES256", spki: new Uint8Array(), schedule, isTainted }) as const;
  const minted = (keys: readonly ReturnType<typeof key>[], at: Date, changes: object = {}) =>
    TokenKey.plan(keys, { ...terms, ...changes }, at).mint as Schedule;
  const first = minted([], now);

  test("has the first key of a running mesh wait for those who follow the bundle", () => {
    const changes = { propagationSeconds: 120, isMeshRunning: true };
    const { publishedFrom, signsFrom } = minted([], now, changes);
    expect(publishedFrom).toEqual(addSeconds(now, 120));
    // They ask every five minutes, and a cache may keep an answer for five.
    expect(signsFrom.getTime() - publishedFrom.getTime()).toBeGreaterThanOrEqual(600_000);
  });

  test("has the first key sign after one propagation interval", () => {
    expect(first.publishedFrom).toEqual(addSeconds(now, 600));
    expect(first.signsFrom).toEqual(addSeconds(now, 600));
  });

  test("publishes each later key for a day before it signs", () => {
    expect(minted([key(first)], addSeconds(now, 599))).toBeUndefined();
    const { publishedFrom, signsFrom, signsUntil } = minted([key(first)], addSeconds(now, 600));
    expect(signsFrom).toEqual(addSeconds(publishedFrom, publishedAheadSeconds));
    expect(publishedAheadSeconds).toBeGreaterThan(24 * 3600);
    expect(signsUntil).toEqual(addSeconds(first.signsUntil, 28 * 24 * 3600));
  });

  test("has the first key sign beside a successor of the same second, whatever their ids", () => {
    const at = minted([], now, { propagationSeconds: 0 });
    const next = minted([key(at)], now, { propagationSeconds: 0 });
    expect(next.publishedFrom).toEqual(at.publishedFrom);
    for (const id of ["a", "z"]) {
      const both = [key(at), { ...key(next), id }];
      expect(TokenKey.signingAt(both, "ES256", now)?.id).toBe("k");
      expect(TokenKey.signingAgainFrom(both, now)).toBeUndefined();
    }
  });

  test("has the key sign that ends first, though its spare is known to relying parties", () => {
    const next = minted([key(first)], addSeconds(now, 600));
    for (const id of ["a", "z"]) {
      const both = [{ ...key(next), id }, key(first)];
      expect(TokenKey.signingAt(both, "ES256", next.signsFrom)?.id).toBe("k");
      expect(TokenKey.signingAt(both, "ES256", addSeconds(first.signsUntil, -1))?.id).toBe("k");
      expect(TokenKey.signingAt(both, "ES256", first.signsUntil)?.id).toBe(id);
    }
  });

  test("has the keys of the former algorithm sign until relying parties know one of the new", () => {
    const later = addSeconds(now, 3600);
    const mint = minted([key(first)], later, { algorithm: "RS256" });
    const both = [key(first), { ...key(mint), id: "new", algorithm: "RS256" } as const];
    const known = mint.signsFrom;
    expect(TokenKey.signingAt(both, "RS256", later)?.id).toBe("k");
    expect(TokenKey.signingAt(both, "RS256", addSeconds(known, -1))?.id).toBe("k");
    expect(TokenKey.signingAt(both, "RS256", known)?.id).toBe("new");
  });

  test("has the second of two first keys wait for relying parties, even if the first is tainted", () => {
    const second = minted([], addSeconds(now, 300));
    const both = [{ ...key(first, true), id: "first" }, key(second)];
    const known = addSeconds(second.publishedFrom, publishedAheadSeconds);
    expect(TokenKey.signingAt(both, "ES256", addSeconds(known, -1))).toBeUndefined();
    expect(TokenKey.signingAt(both, "ES256", known)?.id).toBe("k");
  });

  test("forgets a key once nobody can hold a set that has it, and every reader sees one after it", () => {
    const forgotten = addSeconds(first.retiresAt, publishedAheadSeconds + 600);
    const next = { ...key(minted([key(first)], addSeconds(forgotten, -1200))), id: "next" };
    const pruned = (at: Date, ...after: (typeof next)[]) =>
      TokenKey.plan([key(first), ...after], terms, at).prune;
    expect(pruned(addSeconds(forgotten, -1), next)).toEqual([]);
    expect(pruned(forgotten, next)).toEqual(["k"]);
    // Whoever misses it and sees none yet would have the next key sign unknown.
    expect(pruned(forgotten)).toEqual([]);
    const late = key(minted([key(first)], forgotten));
    expect(pruned(forgotten, { ...late, id: "late" })).toEqual([]);
    const none = { ...terms, algorithm: undefined };
    expect(TokenKey.plan([key(first)], none, forgotten).prune).toEqual(["k"]);
  });

  test("makes no key where no token is issued", () => {
    expect(minted([], now, { algorithm: undefined })).toBeUndefined();
  });

  test("has a taint end a key at once, though no other is known to relying parties", () => {
    const later = addSeconds(now, 3600);
    expect(TokenKey.signingAt([key(first)], "ES256", later)).toBeDefined();
    expect(TokenKey.signingAt([key(first, true)], "ES256", later)).toBeUndefined();
    const mint = minted([key(first, true)], later);
    expect(mint.signsFrom).toEqual(addSeconds(later, 600 + publishedAheadSeconds));
    expect(TokenKey.signingAgainFrom([key(first)], later)).toBeUndefined();
    expect(TokenKey.signingAgainFrom([key(first, true)], later)).toBeUndefined();
    const both = [key(first, true), { ...key(mint), id: "next" }];
    expect(TokenKey.signingAgainFrom(both, later)).toEqual(mint.signsFrom);
    expect(TokenKey.signingAgainFrom(both, mint.signsFrom)).toBeUndefined();
  });

  test("says from when a key signs again after the last one has ended", () => {
    const ended = first.signsUntil;
    const next = minted([key(first)], ended);
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
