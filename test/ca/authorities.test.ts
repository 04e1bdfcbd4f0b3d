import { describe, expect, test } from "vitest";
import { Authorities } from "../../src/ca/authorities.ts";
import type { StorePolicy } from "../../src/ca/opened-store.ts";
import type { StoredRecord } from "../../src/custody/authority-store.ts";
import {
  keks,
  later,
  loadAuthorities,
  loadAuthoritiesFrom,
  sealed,
  signerOf,
  start,
} from "../testkit/ca/loaded-authorities.ts";
import { istioPhaseLengths } from "../testkit/ca/memory-mint.ts";
import { createMemoryStore } from "../testkit/ca/memory-store.ts";
import { createKekRing, withBrokenSeal } from "../testkit/ca/sealed-authorities.ts";
import { eventually } from "../testkit/time/eventually.ts";

/** Signs from the start for a day; its successor takes over after the half of it. */
const current = await sealed();
const successor = await sealed([10_000, 43_200, 120_000, 200_000]);
const otherKek = await sealed(undefined, await createKekRing("k2"));

const rootsOf = async (authorities: Authorities, now: Date) =>
  (await authorities.at(now)).trustBundle.roots.length;

describe("the authorities of a store", () => {
  test("are read once for a thousand requests, and again after a minute", async () => {
    const { authorities, store } = loadAuthorities(keks, current);
    for (let i = 0; i < 1000; i++)
      await authorities.at(later((i * Authorities.longestRefreshSeconds) / 1001));
    expect(store.loads).toBe(1);
    await authorities.at(later(Authorities.longestRefreshSeconds));
    expect(store.loads).toBe(2);
  });

  test("are read before they are due when a renewal is asked for", async () => {
    const { authorities, store } = loadAuthorities(keks, current);
    await authorities.at(start);
    store.records.clear();
    await authorities.renew(start);
    expect(await rootsOf(authorities, start)).toBe(0);
  });

  test("are renewed by a load that begins after the request for it, and not by an earlier one", async () => {
    const ends: ((records: readonly StoredRecord[]) => void)[] = [];
    const load = () => new Promise<readonly StoredRecord[]>((end) => ends.push(end));
    const waitBriefly = async (): Promise<void> => {};
    const store = { ...createMemoryStore(), load };
    const { authorities } = loadAuthoritiesFrom(store, keks, { waitBriefly });
    const early = authorities.at(start);
    const renewal = authorities.renew(start);
    ends.shift()?.([current]);
    await early;
    await eventually(() => expect(ends).toHaveLength(1));
    ends.shift()?.([]);
    await renewal;
    expect(await rootsOf(authorities, start)).toBe(0);
  });

  test("are not renewed while the store cannot be read, and serve on", async () => {
    const { authorities, store } = loadAuthorities(keks, current);
    await authorities.at(start);
    store.outage = new Error("away");
    await expect(authorities.renew(start)).rejects.toHaveProperty(
      "refusal.reason",
      "store-unreachable",
    );
    expect(await rootsOf(authorities, start)).toBe(1);
  });

  test("are opened once, however often they are read", async () => {
    const { authorities } = loadAuthorities(keks, current);
    const { issuer } = await authorities.at(start);
    const refreshed = await authorities.at(later(Authorities.longestRefreshSeconds));
    expect(refreshed.issuer?.signingKey).toBe(issuer?.signingKey);
  });

  test("lose one that was deleted after the next read, and have a new one", async () => {
    const { authorities, store } = loadAuthorities(keks, current, successor);
    const read = (times: number) => later(20_000 + times * Authorities.longestRefreshSeconds);
    expect(await rootsOf(authorities, read(0))).toBe(2);
    store.records.delete(`authority/${successor.id}`);
    expect(await rootsOf(authorities, read(1))).toBe(1);
    await store.put(successor);
    expect(await rootsOf(authorities, read(2))).toBe(2);
  });

  test("answer alike in whatever order they are read", async () => {
    const one = await loadAuthorities(keks, current, successor).authorities.at(later(20_000));
    const two = await loadAuthorities(keks, successor, current).authorities.at(later(20_000));
    expect(two.trustBundle.pem).toBe(one.trustBundle.pem);
    expect(two.chainPem).toEqual([one.trustBundle.pem]);
    expect(two.issuer?.authority.id).toBe(one.issuer?.authority.id);
  });
});

test.each([true, false])(
  "taints that a reload brings apply while the store is down, and are each recorded if the process publishes (%s)",
  async (publishes) => {
    const store = createMemoryStore(current, successor);
    const taintOf = ({ id }: StoredRecord) => ({ idPrefix: id, rootUntil: undefined });
    let policy: StorePolicy = {
      configuredTaints: [taintOf(successor)],
      authorityRoot: "self",
      phaseLengths: istioPhaseLengths,
    };
    const currentPolicy = () => policy;
    const { authorities } = loadAuthoritiesFrom(store, keks, { publishes, currentPolicy });
    const recorded = () => [...store.records.keys()].filter((key) => key.startsWith("taint/"));
    expect(await signerOf(authorities, later(1))).toBe(current.id);
    expect(recorded()).toHaveLength(publishes ? 1 : 0);
    policy = { ...policy, configuredTaints: [taintOf(successor), taintOf(current)] };
    store.outage = new Error("down");
    expect(await signerOf(authorities, later(2))).toBeUndefined();
    store.outage = undefined;
    expect(await signerOf(authorities, later(10))).toBeUndefined();
    expect(recorded()).toHaveLength(publishes ? 2 : 0);
  },
);

describe("a phase", () => {
  test.each([
    ["nobody signs before the first", -1, undefined],
    ["the first signs up to the second's", 43_199.999, "current"],
    ["the second signs from its instant", 43_200, "successor"],
    ["nobody signs after the last", 120_000, undefined],
  ])("begins with its instant: %s", async (_, second, signer) => {
    const { authorities } = loadAuthorities(keks, current, successor);
    const ids: Record<string, string> = { current: current.id, successor: successor.id };
    expect(await signerOf(authorities, later(second))).toBe(signer && ids[signer]);
  });

  test("begins without another read of the store", async () => {
    const { authorities, store } = loadAuthorities(keks, current, successor);
    expect(await signerOf(authorities, later(43_190))).toBe(current.id);
    store.outage = new Error("down");
    expect(await signerOf(authorities, later(43_200))).toBe(successor.id);
    expect(await rootsOf(authorities, later(43_200))).toBe(2);
    expect(store.loads).toBe(1);
  });

  test("is that of the request, even when a clock goes back", async () => {
    const { authorities } = loadAuthorities(keks, current, successor);
    expect(await signerOf(authorities, later(43_200))).toBe(successor.id);
    expect(await signerOf(authorities, later(43_199))).toBe(current.id);
  });
});

describe("a record that does not open", () => {
  test.each<[string, () => StoredRecord, string]>([
    ["with a broken seal", () => withBrokenSeal(successor), "seal"],
    ["under another KEK", () => otherKek, "kek"],
    ["that is no JSON", () => junk("junk"), "form"],
    ["that is empty", () => junk(""), "form"],
    ["under another id", () => ({ ...successor, id: "0".repeat(40) }), "id"],
    ["of another version", () => withVersion(2), "version"],
  ])("is left out, logged and reported: %s", async (_, record, check) => {
    const { authorities, log } = loadAuthorities(keks, current, record());
    const { issuer, trustBundle, reasons } = await authorities.at(later(20_000));
    expect(issuer?.authority.id).toBe(current.id);
    expect(trustBundle.roots).toHaveLength(1);
    expect(reasons).toEqual([expect.stringContaining(check)]);
    expect(log.operations).toEqual([
      {
        event: "record-refused",
        level: "error",
        record: "authority",
        authority: record().id,
        check,
        detail: expect.any(String),
      },
    ]);
  });

  test("is not logged again while it stays the same", async () => {
    const { authorities, log } = loadAuthorities(keks, current, withBrokenSeal(successor));
    for (let i = 0; i < 5; i++) await authorities.at(later(i * Authorities.longestRefreshSeconds));
    expect(log.operations).toHaveLength(1);
  });

  test("serves once it was restored", async () => {
    const { authorities, store } = loadAuthorities(keks, withBrokenSeal(current));
    expect(await signerOf(authorities, start)).toBeUndefined();
    await store.put(current);
    expect(await signerOf(authorities, later(5))).toBe(current.id);
  });

  test("is no longer believed once it was altered in the store", async () => {
    const { authorities, store } = loadAuthorities(keks, current);
    expect(await signerOf(authorities, start)).toBe(current.id);
    await store.put(withBrokenSeal(current));
    expect(await signerOf(authorities, later(Authorities.longestRefreshSeconds))).toBeUndefined();
  });

  test("leaves no value of it in the log", async () => {
    const { authorities, log } = loadAuthorities(
      keks,
      withBrokenSeal(current),
      junk("secret value"),
    );
    await authorities.at(start);
    const text = JSON.stringify(log.operations);
    const { sealedKey } = JSON.parse(current.value) as { sealedKey: string };
    expect(text).not.toContain(sealedKey.slice(4, 24));
    expect(text).not.toContain("secret value");
  });

  function junk(value: string): StoredRecord {
    return { kind: "authority", id: "junk", value };
  }

  function withVersion(version: number): StoredRecord {
    return { ...successor, value: JSON.stringify({ ...JSON.parse(successor.value), version }) };
  }
});
