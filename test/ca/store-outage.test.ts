import { describe, expect, test } from "vitest";
import { Authorities } from "../../src/ca/authorities.ts";
import { FetchError } from "../../src/foundation/fetch.ts";
import {
  keks,
  later,
  loadAuthorities,
  loadAuthoritiesFrom,
  sealed,
  signerOf,
  start,
  surviveOutageSeconds,
} from "../testkit/ca/loaded-authorities.ts";
import { createMemoryStore } from "../testkit/ca/memory-store.ts";
import { withBrokenSeal } from "../testkit/ca/sealed-authorities.ts";
import { refusalOf } from "../testkit/refusal.ts";

const storeUnreachable = { reason: "store-unreachable" };

const current = await sealed();

describe("a store in which nothing signs", () => {
  test("gives the reason", async () => {
    const early = await sealed([-100, 50, 86_400, 100_000]);
    for (const records of [[], [early], [withBrokenSeal(current)]]) {
      const { authorities } = loadAuthorities(keks, ...records);
      expect((await authorities.at(start)).reasons).toHaveLength(1);
    }
  });

  test("is read again soon, but not by every request", async () => {
    const { authorities, store } = loadAuthorities(keks);
    for (let i = 0; i < 100; i++) await authorities.at(start);
    expect(store.loads).toBe(1);
    await store.put(current);
    expect(await signerOf(authorities, later(5))).toBe(current.id);
    expect(store.loads).toBe(2);
  });
});

describe("a load that serves for a second", () => {
  const times = { refreshSeconds: 0.25, surviveOutageSeconds: 1 };

  test("is retried before it ends, so that one failed read of the store refuses nobody", async () => {
    const store = createMemoryStore(current);
    const { authorities } = loadAuthoritiesFrom(store, keks, times);
    await authorities.at(start);
    store.outage = new Error("no file descriptor is left");
    expect(await signerOf(authorities, later(0.3))).toBe(current.id);
    store.outage = undefined;
    expect(await signerOf(authorities, later(1.2))).toBe(current.id);
  });

  test("is followed by one that comes late in a busy process, and refuses nobody", async () => {
    const store = createMemoryStore(current);
    let loads = 0;
    let waits = 0;
    let end = (): void => {};
    const load = async () => {
      if (loads++ > 0) await new Promise<void>((resolve) => (end = resolve));
      return store.load();
    };
    const { authorities } = loadAuthoritiesFrom({ ...store, load }, keks, {
      ...times,
      // Each load takes three such waits.
      waitBriefly: async (loaded) => {
        if (++waits % 3 !== 0) return;
        end();
        await loaded;
      },
    });
    await authorities.at(start);
    const late = [0.5, 1.2, 1.3].map((second) => signerOf(authorities, later(second)));
    expect(await Promise.all(late)).toEqual(late.map(() => current.id));
  });
});

describe("a store that is down", () => {
  test("leaves the loaded authorities to serve for the stated time, and no longer", async () => {
    const { authorities, store, log } = loadAuthorities(keks, current);
    await authorities.at(start);
    store.outage = new Error("down");
    for (const second of [Authorities.longestRefreshSeconds, 600, surviveOutageSeconds - 1]) {
      expect(await signerOf(authorities, later(second))).toBe(current.id);
    }
    expect(log.operations.map(({ event, level }) => [event, level])).toEqual(
      Array.from({ length: 3 }, () => ["store-unreachable", "error"]),
    );
    const refusal = await refusalOf(() => authorities.at(later(surviveOutageSeconds + 1)));
    expect(refusal).toEqual(storeUnreachable);
  });

  test.each([
    ["a file", Object.assign(new Error("EACCES: store/x.json"), { code: "EACCES" }), " (EACCES)"],
    [
      "a service",
      new FetchError("the bucket https://s3.test/b refuses the credential", {
        cause: new FetchError("refuses the credential for GET (status 403)"),
      }),
      ": it refuses the credential for GET (status 403)",
    ],
    [
      "a service whose credential is in a file",
      new FetchError("the bucket https://s3.test/b cannot be asked", {
        cause: new FetchError("cannot be asked: /etc/credentials does not exist"),
      }),
      ": it cannot be asked",
    ],
    ["something else", new Error("KV GET failed: 500 /accounts/7"), " (no reason given)"],
  ])("says why, without a path or an address: %s", async (_, outage, why) => {
    const { authorities, store } = loadAuthorities(keks, current);
    const refusal = `the store of authorities cannot be read`;
    store.outage = new FetchError("fails otherwise at first");
    await expect(authorities.at(start)).rejects.toThrow(refusal);
    store.outage = outage;
    await expect(authorities.at(later(2))).rejects.toHaveProperty("message", `${refusal}${why}`);
  });

  test("and hangs has one request wait for a load and no other while it may take, to the stated time", async () => {
    const store = createMemoryStore(current);
    const { promise: never } = Promise.withResolvers<never>();
    const load = () => (store.outage ? never : createMemoryStore(current).load());
    const waits: number[] = [];
    let second = 0;
    const { authorities } = loadAuthoritiesFrom({ ...store, load }, keks, {
      refreshSeconds: 2,
      waitBriefly: async () => void waits.push(second),
    });
    expect(await signerOf(authorities, start)).toBe(current.id);
    store.outage = new Error("hangs");
    for (; second < 12; second++) {
      expect(await signerOf(authorities, later(second))).toBe(current.id);
    }
    expect(waits).toEqual([2]);
    expect(await signerOf(authorities, later(surviveOutageSeconds - 1))).toBe(current.id);
    const refusal = await refusalOf(() => authorities.at(later(surviveOutageSeconds + 1)));
    expect(refusal).toEqual(storeUnreachable);
  });

  test("from the start causes refusals, which end soon after it is back", async () => {
    const { authorities, store } = loadAuthorities(keks, current);
    store.outage = new Error("down");
    expect(await refusalOf(() => authorities.at(start))).toEqual(storeUnreachable);
    store.outage = undefined;
    expect(await signerOf(authorities, later(5))).toBe(current.id);
  });
});
