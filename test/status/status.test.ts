import { beforeAll, expect, test } from "vitest";
import type { Authorities } from "../../src/ca/authorities.ts";
import { AuthorityView } from "../../src/ca/authority-view.ts";
import { LogEntry } from "../../src/ca/issuance/log-entry.ts";
import { Mint } from "../../src/ca/mint.ts";
import { OpenedStore } from "../../src/ca/opened-store.ts";
import { Rotation } from "../../src/ca/rotation/rotate.ts";
import type { KekRing } from "../../src/custody/kek.ts";
import { Statement } from "../../src/custody/statement.ts";
import { CaError } from "../../src/foundation/errors.ts";
import { AdditionalRoot } from "../../src/pki/authority/trust-bundle.ts";
import { Hex } from "../../src/pki/encoding/bytes.ts";
import { addSeconds } from "../../src/pki/x509/validity.ts";
import { LogSearch } from "../../src/status/log-search.ts";
import { Status, type StatusSources } from "../../src/status/status.ts";
import { Tile } from "../../src/tlog/tile.ts";
import { authoritiesIn, createMemoryMint, type MemoryMint } from "../testkit/ca/memory-mint.ts";
import { createKekRing } from "../testkit/ca/sealed-authorities.ts";
import { tokenIssuer, tokenIssuerWithoutKeys } from "../testkit/callers/token-issuers.ts";
import { createTokenKey } from "../testkit/callers/tokens.ts";
import { configurationOf } from "../testkit/configuration.ts";
import { tokenEntry } from "../testkit/log/token-entry.ts";
import { createRoot } from "../testkit/pki/foreign-root.ts";

const inception = new Date("2026-11-21T12:00:00Z");
const after = (days: number): Date => addSeconds(inception, days * 86_400);

let keks: KekRing;

beforeAll(async () => {
  keks = await createKekRing();
});

/** The authorities of a mint's store, read anew each time. */
const authoritiesOf = (mint: MemoryMint): Authorities => ({
  at: async (now) => AuthorityView.at(await OpenedStore.open(await mint.store.load(), mint), now),
  renew: async () => {},
});

const unreachable: Authorities = {
  at: () => {
    throw new CaError({ reason: "store-unreachable" }, "the store of authorities cannot be read");
  },
  renew: async () => {},
};

interface Changes extends Partial<Omit<StatusSources, "issuance">> {
  readonly signers?: ReadonlyMap<string, { readonly authorities: Authorities }>;
  readonly troubles?: readonly string[];
  readonly refusal?: string;
}

function statusOf(authorities: Authorities, changes: Changes = {}) {
  const { signers = new Map(), troubles = [], refusal, ...others } = changes;
  const mode = "required" as const;
  const issuanceLog = { mode, refusal: () => refusal, troubles: () => troubles };
  return Status.create({
    configuration: configurationOf({}),
    program: "a test",
    issuance: { authorities, signers, issuanceLog },
    issuers: [],
    push: { clusters: [], outcomes: () => [] },
    crlPush: { clusters: [], outcomes: () => [] },
    searchableLog: undefined,
    hasCredentials: false,
    ...others,
  });
}

async function foundedMint(changes: Parameters<typeof createMemoryMint>[1] = {}) {
  const mint = createMemoryMint(keks, changes);
  await Rotation.rotate(mint, inception);
  return mint;
}

test("says who signs, since when and until when, and what comes", async () => {
  const mint = await foundedMint();
  const now = after(1);
  const status = await statusOf(authoritiesOf(mint)).at(now);
  const [signer] = status.signers;
  expect(status.ready).toBe(true);
  expect(signer?.authorities).toMatchObject([{ signs: true, phase: "signing", key: "EC-P256" }]);
  const instants = signer?.events.map(({ at }) => at.getTime()) ?? [];
  expect(instants).toEqual(instants.toSorted());
  expect(signer?.events[0]).toMatchObject({ id: "next", event: "minted" });
  expect(status.trustBundle.roots[0]).toMatchObject({ subject: "O=cluster.local" });
});

test("shows both authorities of a rotation, of which the former verifies once its successor signs", async () => {
  const mint = await foundedMint();
  await Rotation.rotate(mint, after(200));
  const overlap = after(355);
  const { signers } = await statusOf(authoritiesOf(mint)).at(overlap);
  const found = signers[0]?.authorities ?? [];
  expect(found).toHaveLength(2);
  expect(found).toMatchObject([
    { phase: "verifying", signs: false },
    { phase: "signing", signs: true },
  ]);
  expect(found[0]?.schedule.signsUntil).toEqual(found[1]?.schedule.signsFrom);
});

test("shows a taint with its time, and that nobody signs", async () => {
  const mint = await foundedMint();
  const [record] = await mint.store.load();
  const id = record?.id ?? "";
  await Mint.recordTaint(mint, { id, taintedAt: after(2), retiresAt: after(100) });
  await Mint.recordTaint(mint, { id, taintedAt: after(2.5), retiresAt: after(99) });
  const status = await statusOf(authoritiesOf(mint)).at(after(3));
  const [authority] = status.signers[0]?.authorities ?? [];
  expect(authority).toMatchObject({ isTainted: true, signs: false, taintedAt: after(2) });
  expect(status.ready).toBe(false);
  expect(status.needsAttention).not.toEqual([]);
});

test("shows a taint of the configuration, and the schedule that a taint leaves to a root", async () => {
  const mint = await foundedMint({ configuredTaints: [{ idPrefix: "", rootUntil: after(50) }] });
  const notAfter = new Date("2030-01-01T00:00:00Z");
  const root = AdditionalRoot.create(await createRoot({ notAfter }), inception);
  await mint.store.put(await Statement.seal("root", root, mint));
  const { signers } = await statusOf(authoritiesOf(mint)).at(after(51));
  const shown = { isTainted: true, taintedAt: undefined, phase: "retired" };
  expect(signers[0]?.authorities).toMatchObject([shown, { ...shown, kind: "additional root" }]);
});

test("says of an empty store that nobody signs, and forecasts nothing", async () => {
  const mint = createMemoryMint(keks);
  const status = await statusOf(authoritiesOf(mint)).at(inception);
  expect(status).toMatchObject({ ready: false, needsAttention: ["the store holds no authority"] });
  expect(status.signers[0]?.events).toEqual([]);
  await mint.store.put({ kind: "denial", id: "junk", value: "junk" });
  const { signers } = await statusOf(authoritiesOf(mint)).at(inception);
  expect(signers[0]?.unopened).toBeUndefined();
  // Under another CA's root a person has to do something.
  const offline = authoritiesOf(createMemoryMint(keks, { authorityRoot: "offline" }));
  const { signers: own } = await statusOf(offline).at(inception);
  expect(own[0]?.nextStep).toMatchObject({ act: "request" });
});

test("still says something while the store cannot be read, and shows the other signers while that of one cannot", async () => {
  const own = await statusOf(unreachable, { troubles: ["the log is slow"] }).at(inception);
  expect(own).toMatchObject({ ready: false, signers: [] });
  const away = "the store of authorities cannot be read";
  expect(own.needsAttention).toEqual([away, "the log is slow"]);
  const mint = await foundedMint();
  const signers = new Map([["batch", { authorities: unreachable }]]);
  const status = await statusOf(authoritiesOf(mint), { signers }).at(after(1));
  expect(status.signers.map(({ name }) => name)).toEqual([""]);
  expect(status.ready).toBe(true);
  expect(status.needsAttention).toEqual([away]);
});

test("a CA that cannot log what it issues is not ready, and says why", async () => {
  const refusal = "the issuance log takes no entry: disk full";
  const own = authoritiesOf(await foundedMint());
  const status = await statusOf(own, { refusal, troubles: [refusal] }).at(after(1));
  expect(status).toMatchObject({ ready: false, needsAttention: [refusal] });
});

test("lets a defect through, and does not take it for a store that is away", async () => {
  const broken = { ...unreachable, at: () => Promise.reject(new Error("a defect")) };
  await expect(statusOf(broken).at(inception)).rejects.toThrow("a defect");
});

test("says how far the roots have come in each cluster, and where it does not know", async () => {
  const mint = await foundedMint();
  const now = after(1);
  const { sequence } = await authoritiesOf(mint).at(now);
  const outcome = { sequence, written: 0, missing: 0, since: now, fault: undefined };
  const issuers = ["a", "b", "c", "d", "e"].map((cluster) =>
    tokenIssuerWithoutKeys(`https://${cluster}.test`, { cluster }),
  );
  const { clusters } = await statusOf(authoritiesOf(mint), {
    issuers,
    push: {
      clusters: ["a", "b", "c", "d"],
      outcomes: () => [
        { ...outcome, cluster: "a", namespaces: 3, delivered: 3 },
        { ...outcome, cluster: "b", namespaces: 3, delivered: 3, sequence: sequence - 1 },
        { ...outcome, cluster: "c", namespaces: 3, delivered: 1, fault: "x".repeat(9999) },
      ],
    },
  }).at(now);
  expect(clusters.map(({ name, delivery }) => [name, delivery])).toEqual([
    ["a", "complete"],
    ["b", "pending"],
    ["c", "failed"],
    ["d", "unknown"],
    ["e", "elsewhere"],
  ]);
  expect(clusters[2]?.progress?.fault).toHaveLength(500);
});

test("says of each issuer how its keys are", async () => {
  const key = await createTokenKey("ES256", "k1");
  const failure = { at: inception, detail: "answered with status 503" };
  const keys = [{ keyId: "k2", algorithms: ["RS256"] as const }];
  const states = [
    { keys: [] },
    { keys, fetchedAt: inception },
    { keys, fetchedAt: inception, failure },
    { keys: [], failure },
  ].map((state) => {
    const source = "issuer" as const;
    const loaded = Object.assign(() => [], { state: () => ({ source, ...state }) });
    return tokenIssuerWithoutKeys("https://a.test", { keys: loaded });
  });
  const { issuers } = await statusOf(unreachable, {
    issuers: [tokenIssuer("https://a.test", [key]), ...states],
  }).at(inception);
  const shown = ["configured", "not fetched", "fetched", "stale", "unreachable"];
  expect(issuers.map((issuer) => issuer.keys)).toEqual(shown);
  expect(issuers[0]?.knownKeys).toMatchObject([{ keyId: "k1", algorithms: ["ES256"] }]);
  expect(issuers[4]).toMatchObject({ failure: { detail: "answered with status 503" } });
});

test("says where calls are not counted, and whether entries of a log may be read", async () => {
  const searchableLog = LogSearch.in({ shards: async () => [], read: async () => undefined });
  const closed = await statusOf(unreachable, { searchableLog }).at(inception);
  expect(closed.log).toBe("closed");
  expect(closed.issuance.since).toBeUndefined();
  expect(closed.issuance.scope).toContain("not counted here");
  expect((await statusOf(unreachable).at(inception)).log).toBe("off");
  const shards = () => Promise.reject(new Error("the bucket is away"));
  const away = LogSearch.in({ shards, read: async () => undefined });
  const status = statusOf(unreachable, { searchableLog: away, hasCredentials: true });
  expect((await status.at(inception)).issuance.scope).toBe(
    "the log cannot be read: the bucket is away",
  );
});

test("measures a named signer by its own inception date", async () => {
  const callers = [{ issuer: "https://a.test", namespaces: ["a"], accounts: ["a"] }];
  const { findings } = await statusOf(authoritiesOf(await foundedMint()), {
    configuration: configurationOf({
      ISSUERS: [{ issuer: "https://a.test" }],
      INCEPTION_DATE: "2026-11-22",
      SIGNERS: [{ name: "batch", inception_date: "2020-01-01", callers }],
    }),
    signers: new Map([["batch", { authorities: authoritiesOf(createMemoryMint(keks)) }]]),
  }).at(after(1));
  const what = "Signer batch: The store is empty, and INCEPTION_DATE 2020-01-01 is over.";
  expect(findings).toMatchObject([{ name: "inception-date-passed", what }]);
});

test("names what the records tell that an operator should know, the worst first", async () => {
  const mint = await foundedMint();
  const healthy = await statusOf(authoritiesOf(mint)).at(after(1));
  expect(healthy.findings).toEqual([]);
  const empty = statusOf(authoritiesOf(createMemoryMint(keks)), {
    configuration: configurationOf({ INCEPTION_DATE: "2020-01-01" }),
    push: {
      clusters: ["a"],
      outcomes: () => [
        {
          ...{ cluster: "a", sequence: 0, namespaces: 2, delivered: 1, written: 0, missing: 1 },
          ...{ since: undefined, fault: undefined },
        },
      ],
    },
  });
  const { findings } = await empty.at(after(1));
  expect(findings.map(({ name }) => name)).toEqual(["inception-date-passed", "bundle-missing"]);
  expect(findings[0]?.remedy).toContain("For a new CA, set INCEPTION_DATE");
});

test("says of which named signer a reason is, and of a store that a part of it opens", async () => {
  const mint = await foundedMint();
  await mint.store.put({ kind: "authority", id: "junk", value: "junk" });
  const signers = new Map([["batch", { authorities: authoritiesOf(createMemoryMint(keks)) }]]);
  const status = await statusOf(authoritiesOf(mint), { signers }).at(after(1));
  expect(status.needsAttention).toContain("signer batch: the store holds no authority");
  expect(status.signers[0]?.unopened).toBeUndefined();
});

test("marks entries of the log that a denial and a revocation of the configuration concern", async () => {
  const octets: Record<string, Uint8Array> = {
    checkpoint: new TextEncoder().encode(
      `log.test\n2\n${"A".repeat(43)}=\n\n— log.test AAAAAAA=\n`,
    ),
  };
  const mint = await foundedMint();
  const [authority] = await authoritiesIn(mint);
  if (!authority) throw new Error("no authority");
  const { token: _, ...others } = tokenEntry();
  const { der: certificate, toBeSigned } = authority.certificate;
  const bundle = Tile.formatBundle([
    LogEntry.format(tokenEntry()),
    LogEntry.format({ ...others, kind: "certificate", certificate }),
  ]);
  const searchableLog = LogSearch.in({
    shards: async () => [{ shard: "0", origin: "log.test" }],
    read: async (_, path) => octets[path] ?? bundle,
  });
  const [since, until] = [inception, after(9)].map((each) => each.toISOString());
  const serials = [Hex.format(toBeSigned.serialNumber)];
  const configuration = configurationOf({
    DENIED: ["ns/shop/sa/cart"],
    REVOKED: [{ authority: authority.id, serials, since, until }],
  });
  const own = authoritiesOf(mint);
  const { searchLog } = statusOf(own, { configuration, searchableLog, hasCredentials: true });
  const found = await searchLog?.({ query: "", limit: 2, now: inception });
  const states = found?.entries.map(({ distrust }) => distrust?.state);
  expect(states?.toSorted()).toEqual(["denied", "revoked"]);
});
