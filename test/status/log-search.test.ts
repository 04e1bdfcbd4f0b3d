import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Denial } from "../../src/ca/denial.ts";
import { LogEntry } from "../../src/ca/issuance/log-entry.ts";
import type { DenialContent, RevocationContent } from "../../src/custody/record-kinds.ts";
import { NewAuthority } from "../../src/pki/authority/new-authority.ts";
import { SerialNumber } from "../../src/pki/encoding/serial-number.ts";
import { addSeconds } from "../../src/pki/x509/validity.ts";
import { DenialStatus, Distrust, type StatedDistrust } from "../../src/status/distrust.ts";
import { LogSearch, type SearchedLog } from "../../src/status/log-search.ts";
import { LogSearchError } from "../../src/status/log-search-error.ts";
import { Checkpoint } from "../../src/tlog/note/checkpoint.ts";
import { Tile } from "../../src/tlog/tile.ts";
import { clusterLocal, scheduleAfter } from "../testkit/ca/sealed-authorities.ts";
import { tokenEntry } from "../testkit/log/token-entry.ts";
import { type LoggedCa, startLoggedCa } from "../testkit/tlog/logged-ca.ts";

let now: Date;
const nothing = async () => ({ authorities: [], revocations: [], denials: [] });

let logged: LoggedCa;
let search: LogSearch;

const published = (read: SearchedLog["read"]): SearchedLog => ({
  shards: async () => [{ shard: "0", origin: "log.example.com/2026" }],
  read,
});

beforeAll(async () => {
  logged = await startLoggedCa();
  now = logged.ca.now();
  for (const account of ["shop:cart", "shop:checkout", "bank:ledger"]) await logged.issue(account);
  await logged.log.publish();
  search = new LogSearch(
    published(async (_, path) => logged.objects.stored.get(path)),
    nothing,
  );
});

afterAll(() => logged.end());

/** Of a log with one entry. */
const checkpoint = new TextEncoder().encode(
  `log.test\n1\n${"A".repeat(43)}=\n\n— log.test AAAAAAA=\n`,
);
const deniedCart = Denial.parse({ subject: "ns/shop/sa/cart", knownFrom: new Date(0) }) as Denial;

const namesOf = async (query: string, limit = 0): Promise<string[]> =>
  (await search.search({ query, limit, now })).entries.map(({ name }) => name);
const spiffeId = (path: string): string => `spiffe://cluster.local/ns/${path}`;

describe("a search in the log", () => {
  test("shows the newest entries first", async () => {
    expect(await namesOf("")).toEqual([
      spiffeId("bank/sa/ledger"),
      spiffeId("shop/sa/checkout"),
      spiffeId("shop/sa/cart"),
      "spiffe://cluster.local",
    ]);
  });

  test("says how much it has looked at", async () => {
    expect(await search.search({ query: "", limit: 2, now })).toMatchObject({
      searched: 2,
      total: 4,
    });
    expect(await search.search({ query: "nothing of it", limit: 2, now })).toMatchObject({
      entries: [],
      searched: 4,
    });
  });

  test("finds a token by its subject, its id and its audience", async () => {
    const entry = tokenEntry({
      at: now.toISOString(),
      cluster: "other",
      tokenSubject: { sub: "repo:octo/r:ref:x", entry: "ci", claims: { environment: "Staging" } },
      shadowRule: "new",
      shadowEffect: "denied",
    });
    const { jti, audiences, expiresAt } = entry.token;
    const bundle = Tile.formatBundle([LogEntry.format(entry)]);
    const tokens = new LogSearch(
      published(async (_, path) => (path === "checkpoint" ? checkpoint : bundle)),
      async () => ({ ...(await nothing()), denials: [deniedCart] }),
    );
    for (const query of ["sa/cart", jti.slice(2, 10), "amazonaws", "repo:octo", "staging"]) {
      const { entries } = await tokens.search({ query, limit: 1, now });
      expect(entries).toMatchObject([
        {
          serialNumber: jti,
          audiences,
          notAfter: new Date(expiresAt),
          distrust: { state: "denied" },
          decision: { shadowRule: "new", shadowEffect: "denied" },
        },
      ]);
    }
  });

  test("marks what a denied account asked for as gateway or as node proxy", async () => {
    const stated = { ...(await nothing()), denials: [deniedCart] };
    const other = { spiffeId: spiffeId("bank/sa/ledger") };
    for (const by of ["gateway", "impersonator"]) {
      const entry = tokenEntry({ [by]: spiffeId("shop/sa/cart") }, other);
      expect(Distrust.of(LogEntry.format(entry), stated, now)?.state).toBe("denied");
    }
    expect(Distrust.of(LogEntry.format(tokenEntry({}, other)), stated, now)).toBeUndefined();
  });

  test.each(["cluster/Kubernetes", "node/worker-3", "pod/cart-0"])(
    "marks what came from %s, which is denied",
    async (subject) => {
      const denial = Denial.parse({ subject, knownFrom: new Date(1) }) as Denial;
      const stated = { ...(await nothing()), denials: [denial] };
      const stateOf = (name: string, cluster: string) => {
        const [pod, node] = [{ name: "cart-0", uid: name }, { name }];
        const entry = tokenEntry({ cluster, pod, node });
        return Distrust.of(LogEntry.format(entry), stated, now)?.state;
      };
      expect(stateOf(subject.split("/")[1] ?? "", "Kubernetes")).toBe("denied");
      expect(stateOf("worker-4", "other")).toBeUndefined();
    },
  );

  test("finds the newest entries of all shards, of sixteen at most", async () => {
    const read = new Set<string>();
    const sharded = (count: number): SearchedLog => ({
      shards: async () =>
        Array.from({ length: count }, (_, i) => ({ shard: `${i}`, origin: `log.test/${i}` })),
      read: async (shard, path) => {
        read.add(shard);
        const at = addSeconds(now, Number(shard)).toISOString();
        return path === "checkpoint"
          ? checkpoint
          : Tile.formatBundle([LogEntry.format(tokenEntry({ at }))]);
      },
    });
    const question = { query: "", limit: 2, now };
    const { entries } = await new LogSearch(sharded(3), nothing).search(question);
    expect(entries.map(({ origin }) => origin)).toEqual(["log.test/2", "log.test/1"]);
    await new LogSearch(sharded(20), nothing).search(question);
    expect(read.size).toBe(16);
  });

  test.each([
    ["a part of a name", "ns/shop/", ["shop/sa/checkout", "shop/sa/cart"]],
    ["another case", " SA/Ledger ", ["bank/sa/ledger"]],
    ["a pod", "cart-0", ["shop/sa/cart"]],
    ["a cluster", "kubernetes", ["bank/sa/ledger", "shop/sa/checkout", "shop/sa/cart"]],
  ])("finds %s", async (_, query, paths) => {
    expect(await namesOf(query)).toEqual(paths.map(spiffeId));
  });

  test.each(["ns/shop/*", "node:node-1", "cluster=Kubernetes", "Spiffe-ID: x", "x".repeat(257)])(
    "refuses %s, which no field can hold",
    async (query) => {
      const answer = search.search({ query, limit: 2, now });
      await expect(answer).rejects.toMatchObject({ reason: "query" });
    },
  );

  test("finds a serial number in any spelling, and a part of one", async () => {
    const [entry] = (await search.search({ query: "", limit: 1, now })).entries;
    const serial = entry?.serialNumber ?? "";
    expect(serial).toMatch(/^01(?:[0-9a-f]{2}){16}$/);
    const pairs = serial.match(/../g) ?? [];
    for (const query of [
      serial,
      serial.toUpperCase(),
      serial.slice(1),
      pairs.join(":"),
      `0x${serial}`,
      `${BigInt(`0x${serial}`)}`,
      serial.slice(3),
      serial.slice(0, 6),
    ]) {
      expect((await search.search({ query, limit: 1, now })).entries[0]?.index).toBe(entry?.index);
    }
  });

  test("does not find what the entries hold beside what is shown", async () => {
    expect(await namesOf('"proof":"token"')).toEqual([]);
    expect(await namesOf("certificate")).toEqual([]);
  });
});

describe("a search beside the statements of operators", () => {
  const stated = async (changes: Partial<StatedDistrust>): Promise<readonly unknown[]> => {
    const statements = { ...(await nothing()), ...changes };
    const log = published(async (_, path) => logged.objects.stored.get(path));
    const search = new LogSearch(log, async () => statements);
    const found = await search.search({ query: "", limit: 0, now });
    return found.entries.map(({ distrust }) => distrust && [distrust.state, distrust.detail]);
  };
  const denialOf = (others: Partial<DenialContent>): Denial =>
    Denial.parse({ subject: "ns/bank/sa/*", knownFrom: now, ...others }) ?? (undefined as never);
  const revocationOf = async (authority: string): Promise<RevocationContent> => {
    const [entry] = (await search.search({ query: "ledger", limit: 1, now })).entries;
    const certificates = new Map([[SerialNumber.content(entry?.serialNumber ?? ""), 4e9]]);
    return { authority, revokedAt: now, knownFrom: now, reason: "unspecified", certificates };
  };

  test("marks whose holder is denied, until the denial ends", async () => {
    const none = [undefined, undefined, undefined, undefined];
    const denied = ["denied", "ns/bank/sa/*"];
    expect(await stated({ denials: [denialOf({})] })).toEqual([denied, ...none.slice(1)]);
    expect(await stated({ denials: [denialOf({ until: now })] })).toEqual(none);
    const later = new Date(now.getTime() + 1e12);
    expect(await stated({ denials: [denialOf({ knownFrom: later })] })).toEqual(none);
  });

  test("marks what is revoked of its own authority, before a denial", async () => {
    const { store } = await logged.ca.certificateAuthority.issuance.authorities.at(logged.ca.now());
    const { authority: namesake } = await NewAuthority.create(
      clusterLocal,
      "EC-P256",
      scheduleAfter(now, [-4, -3, 3, 9]),
    );
    const authorities = [namesake, ...store.authorities];
    const own = await revocationOf(store.authorities[0]?.id ?? "");
    const statements = { authorities, revocations: [own], denials: [denialOf({})] };
    expect((await stated(statements))[0]).toEqual(["revoked", ""]);
    for (const other of [namesake.id, "ab".repeat(20)]) {
      const foreign = await revocationOf(other);
      expect((await stated({ authorities, revocations: [foreign] }))[0]).toBeUndefined();
    }
  });

  test("says nothing while nobody knows what is stated", async () => {
    const log = published(async (_, path) => logged.objects.stored.get(path));
    const away = new LogSearch(log, () => Promise.reject(new Error("the store is away")));
    await expect(away.search({ query: "", limit: 0, now })).rejects.toMatchObject({
      reason: "unreadable",
      message: "the store cannot be read: the store is away",
    });
  });
});

describe("a log that is not as it should be", () => {
  const all = { query: "", limit: 0 };
  const reasonOf = async (work: Promise<unknown>): Promise<unknown> =>
    work.then(
      () => undefined,
      (error: unknown) => (error instanceof LogSearchError ? error.reason : error),
    );

  test("may be empty", async () => {
    const empty = published(async () => undefined);
    const found = await new LogSearch(empty, nothing).search({ ...all, now });
    expect(found).toMatchObject({ entries: [], total: 0 });
  });

  test("is unavailable when its storage fails, or has no bundle or no checkpoint of the form", async () => {
    const failing = published(() => Promise.reject(new Error("the bucket is away")));
    const incomplete = published(async (_, path) =>
      path === "checkpoint" ? logged.objects.stored.get(path) : undefined,
    );
    const junk = published(async () => new TextEncoder().encode("junk"));
    for (const log of [failing, incomplete, junk]) {
      const question = new LogSearch(log, nothing).search({ ...all, now });
      expect(await reasonOf(question)).toBe("unreadable");
    }
  });

  test("has entries that are none left out", async () => {
    const stored = logged.objects.stored;
    const { size } = Checkpoint.parse(
      new TextDecoder().decode(stored.get("checkpoint")).split("\n\n")[0]?.concat("\n") ?? "",
    );
    const { token: _, ...others } = tokenEntry();
    const certificate = new TextEncoder().encode("junk");
    const noDer = LogEntry.format({ ...others, kind: "certificate", certificate });
    const junk = Tile.formatBundle([certificate, ...Array.from({ length: size - 1 }, () => noDer)]);
    const forged = published(async (_, path) => (path === "checkpoint" ? stored.get(path) : junk));
    const answer = await new LogSearch(forged, nothing).search({ query: "", limit: 0, now });
    expect(answer).toMatchObject({ entries: [], searched: size });
  });

  test("counts the entries of the newest sixteen bundles, as many as it searches", async () => {
    const checkpoint = new TextDecoder().decode(logged.objects.stored.get("checkpoint"));
    const entry = LogEntry.format(tokenEntry());
    const bundle = Tile.formatBundle(Array.from({ length: 256 }, () => entry));
    const long = published(async (_, path) =>
      path === "checkpoint"
        ? new TextEncoder().encode(checkpoint.replace("\n4\n", `\n${20 * 256}\n`))
        : bundle,
    );
    const own = new LogSearch(long, nothing);
    const { entries, total } = await own.newest();
    expect([entries.length, total]).toEqual([16 * 256, 20 * 256]);
    const none = await own.search({ query: "nothing of it", limit: 1, now });
    expect(none).toMatchObject({ entries: [], searched: 16 * 256 });
    expect((await own.search({ query: "", limit: 4_000_000, now })).entries).toHaveLength(100);
  });

  test("turns a third search away while two are under way", async () => {
    const release = Promise.withResolvers<undefined>();
    const reading = published(() => release.promise);
    const slow = new LogSearch(reading, nothing);
    const underWay = [1, 2].map(() => slow.search({ ...all, now }));
    expect(await reasonOf(slow.search({ ...all, now }))).toBe("busy");
    release.resolve(undefined);
    await Promise.all(underWay);
    expect(await reasonOf(slow.search({ ...all, now }))).toBeUndefined();
  });
});

test("of several denials of one subject in the store, that which ends last is shown", () => {
  const denial = (until?: Date): Denial => ({ ...deniedCart, until });
  const [sooner, later] = [denial(addSeconds(now, 60)), denial(addSeconds(now, 3600))];
  const shown = (...stored: readonly Denial[]) =>
    DenialStatus.all(stored, [sooner], now).map(({ stated, until }) => [stated, until]);
  for (const stored of [
    [sooner, later],
    [later, sooner],
  ]) {
    expect(shown(...stored)).toContainEqual(["store", later.until]);
    expect(shown(...stored)).toHaveLength(2);
  }
  expect(shown(later, denial())).toContainEqual(["store", undefined]);
});
