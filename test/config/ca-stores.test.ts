import { describe, expect, test } from "vitest";
import { foundIfEmpty, Rotation } from "../../src/ca/rotation/rotate.ts";
import { CaStores, refreshSecondsOf, type StorePlatform } from "../../src/config/ca-stores.ts";
import type { Configuration } from "../../src/config/configuration.ts";
import { Pem } from "../../src/pki/encoding/pem.ts";
import { webCryptoProvider } from "../../src/pki/web-crypto.ts";
import { addSeconds } from "../../src/pki/x509/validity.ts";
import { createMemoryStore, type MemoryStore } from "../testkit/ca/memory-store.ts";
import { configurationOf, randomKek } from "../testkit/configuration.ts";
import { createEventRecorder } from "../testkit/log/event-recorder.ts";
import { noFetching } from "../testkit/network/no-fetching.ts";

const start = new Date("2026-11-22T12:00:00Z");
const KEK = randomKek();
const callers = [{ issuer: "https://a.test" }];
const inception_date = "2026-11-22";
const SIGNERS = [
  { name: "team-a", authority_key: "EC-P384", inception_date, callers },
  { name: "team-b", inception_date, callers },
];

const configure = (changes: object = {}): Configuration =>
  configurationOf({
    KEK,
    INCEPTION_DATE: inception_date,
    PROPAGATION_INTERVAL: "0s",
    SIGNERS,
    ...changes,
  });

/** A platform over stores in memory, with a clock that the test moves. */
function platformWith(changes: Partial<StorePlatform> = {}) {
  const log = createEventRecorder();
  const stores = new Map<string, MemoryStore>();
  const time = { now: start };
  const platform = {
    store: createMemoryStore(),
    signerStore: (signer: string) => {
      const store = stores.get(signer) ?? createMemoryStore();
      stores.set(signer, store);
      return store;
    },
    clock: () => time.now,
    log,
    cryptoProvider: webCryptoProvider,
    fetching: noFetching,
    ...changes,
  };
  return { platform, log, stores, time };
}

/** Stores whose own authority and whose signer's sign. */
async function openSigning() {
  const { platform, time, ...others } = platformWith();
  const configuration = configure();
  const opened = await CaStores.open(configuration, platform);
  const { mint, signerMints } = CaStores.mints(opened, configuration, platform);
  await foundIfEmpty(mint, start);
  await Rotation.rotateAll([mint, ...signerMints.values()], start);
  time.now = addSeconds(start, 60);
  return { opened, mint, signerMints, time, ...others };
}

describe("the time between two reads of a store", () => {
  test.each([
    ["a quarter of the propagation interval", "240s", 3600, 60],
    ["at most a minute", "1h", undefined, 60],
    ["at most what the platform says", "1h", 5, 5],
    ["none without propagation", "0s", 5, 0],
  ])("is %s", (_, interval, longestRefreshSeconds, seconds) => {
    const configuration = configure({ PROPAGATION_INTERVAL: interval });
    const platform = longestRefreshSeconds === undefined ? {} : { longestRefreshSeconds };
    expect(refreshSecondsOf(configuration, platform)).toBe(seconds);
  });
});

describe("the stores of named signers", () => {
  test("are not opened where the platform has no place for them", async () => {
    const { platform } = platformWith();
    const { signerStore: _, ...without } = platform;
    const opened = await CaStores.open(configure(), without);
    expect(opened.named).toEqual(new Map());
    expect(CaStores.mints(opened, configure(), without).signerMints).toEqual(new Map());
  });

  test("are those of the tables, and no others", async () => {
    const { platform, stores } = platformWith();
    const opened = await CaStores.open(configure({ SIGNERS: [] }), platform);
    expect(opened.named).toEqual(new Map());
    expect(stores.size).toBe(0);
  });

  test("have no mint for a signer that joins the configuration later", async () => {
    const { platform } = platformWith();
    const opened = await CaStores.open(configure({ SIGNERS: [] }), platform);
    expect(CaStores.mints(opened, configure(), platform).signerMints).toEqual(new Map());
  });

  test("are minted into with the key of their table, and published before they sign", async () => {
    const { mint, signerMints } = await openSigning();
    const parts = [mint, ...signerMints.values()];
    expect(parts.map(({ authorityKey, joinsMesh }) => [authorityKey, joinsMesh])).toEqual([
      ["EC-P256", undefined],
      ["EC-P384", true],
      ["EC-P256", true],
    ]);
  });

  test("share one trust bundle, and no record, KEK or signing authority", async () => {
    const { opened, time, mint, stores } = await openSigning();
    const own = await opened.own.authorities.at(time.now);
    const named = await opened.named.get("team-a")?.authorities.at(time.now);
    expect(own.trustBundle.roots).toHaveLength(3);
    expect(named?.trustBundle).toEqual(own.trustBundle);
    expect(named?.issuer?.authority.id).not.toBe(own.issuer?.authority.id);
    expect([own.store.authorities.length, named?.store.authorities.length]).toEqual([1, 1]);
    expect(opened.named.get("team-a")?.keks[0].key).not.toBe(opened.own.keks[0].key);
    const [record] = (await stores.get("team-a")?.load()) ?? [];
    if (!record) throw new Error("the signer has no record");
    await mint.store.put(record);
    expect(await mint.store.put(record, "of another writer")).toBe(false);
    const later = await opened.own.authorities.at(addSeconds(time.now, 600));
    expect(later.store.refusals).toMatchObject([{ kind: "authority", id: record.id }]);
  });

  test("are named in the events of their authorities, and in no others", async () => {
    const { log } = await openSigning();
    const minted = log.operations.filter(({ event }) => event === "authority-minted");
    const named = minted.map(({ signer = "none" }) => signer);
    expect(named.toSorted()).toEqual(["none", "team-a", "team-b"]);
  });
});

test("a signer has its own inception date, and no keys for tokens", async () => {
  const { platform } = platformWith();
  const values = { JWT_ISSUER: "https://id.test", INCEPTION_DATE: "2026-11-21" };
  const configuration = configure(values);
  const opened = await CaStores.open(configuration, platform);
  const { mint, signerMints } = CaStores.mints(opened, configuration, platform);
  expect(mint).toMatchObject({ tokenAlgorithm: "ES256", inceptionDate: "2026-11-21" });
  const named = signerMints.get("team-a");
  expect([named?.tokenAlgorithm, named?.inceptionDate]).toEqual([undefined, inception_date]);
});

test("a store whose loads lag serves for as much less in an outage", async () => {
  const store = createMemoryStore();
  const { platform } = platformWith({ store, storeLagSeconds: 100 });
  const configuration = configure({ PROPAGATION_INTERVAL: "10m", SIGNERS: [] });
  const { own } = await CaStores.open(configuration, platform);
  await own.authorities.at(start);
  store.outage = new Error("away");
  const seconds = (n: number) => own.authorities.at(addSeconds(start, n));
  expect(await seconds(500)).toBeDefined();
  await expect((async () => seconds(501))()).rejects.toThrow("cannot be read");
});

test("authorities are neither served nor loaded anew while their KEK is not held", async () => {
  const { platform } = platformWith();
  const configuration = configure();
  const held = (await CaStores.open(configuration, platform)).keks;
  const hold = () => Promise.reject(new Error("not held"));
  const { own } = await CaStores.open(configuration, { ...platform, keks: { ...held, hold } });
  for (const work of [own.authorities.at, own.authorities.renew, own.store.load])
    await expect((async () => work(start))()).rejects.toThrow("not held");
});

test("a signer's own root is no other signer's", async () => {
  const root = Pem.format("CERTIFICATE", new Uint8Array(1));
  const key = "awskms://kms.eu-central-1.amazonaws.com/arn:aws:kms:eu-central-1:111122223333:key/1";
  const upstream_authority = { kind: "key-service", keys: [key], root };
  const { platform } = platformWith();
  const [table, other] = SIGNERS;
  const configuration = configure({ SIGNERS: [{ ...table, upstream_authority }, other] });
  const stores = await CaStores.open(configuration, platform);
  const rootOf = async (of = stores.own) => (await of.authorities.at(start)).store.authorityRoot;
  const roots = () => Promise.all([stores.own, ...stores.named.values()].map(rootOf));
  expect(await roots()).toEqual(["self", "upstream", "self"]);
  stores.follow({ ...configuration });
  expect(await roots()).toEqual(["self", "upstream", "self"]);
  expect(() => CaStores.mints(stores, configuration, platform)).toThrow("a key service needs");
});

test.each(["own", "named"] as const)(
  "the taints of another configuration count once the stores follow it: %s",
  async (whose) => {
    const { opened, time } = await openSigning();
    if (whose === "named") time.now = addSeconds(start, 86_400 * 100);
    const of = whose === "own" ? opened.own : opened.named.get("team-a");
    const signerNow = async () => (await of?.authorities.at(time.now))?.issuer?.authority.id;
    const id = await signerNow();
    const tainted = configure({ TAINTED_AUTHORITIES: [id] });
    expect(await signerNow()).toBe(id);
    opened.follow(tainted);
    expect(await signerNow()).toBeUndefined();
    opened.follow(configure());
    expect(await signerNow()).toBe(id);
  },
);

describe("a mint under a CA upstream", () => {
  const upstream = {
    AUTHORITY_ROOT: "upstream",
    UPSTREAM_AUTHORITY: { kind: "vault", url: "https://v.test" },
  };
  async function mintUnder(
    values: object,
    means: object = {},
  ): Promise<ReturnType<typeof CaStores.mints>["mint"]> {
    const { platform } = platformWith();
    const opened = await CaStores.open(configure(values), platform);
    return CaStores.mints(opened, configure(values), { ...platform, ...means }).mint;
  }

  test("needs its credential in a server", async () => {
    await expect(mintUnder(upstream)).rejects.toThrow("UPSTREAM_CREDENTIAL: is required");
  });

  test("of a verb has one that fails when it is asked", async () => {
    const mint = await mintUnder(upstream, { mayLackCredential: true });
    const asking = mint.upstream?.({ csr: new Uint8Array(), lifetimeSeconds: 1 });
    await expect(asking).rejects.toThrow("UPSTREAM_CREDENTIAL is required");
  });

  test("has its root's CRLs signed in the key service, where there are CRLs", async () => {
    const keyCustody = {
      keyServices: (uri: string) => uri,
      serviceRootSigner: ({ keys }: { keys: readonly string[] }) => keys,
    };
    const root = Pem.format("CERTIFICATE", new Uint8Array(1));
    const UPSTREAM_AUTHORITY = { kind: "key-service", keys: ["awskms:///x"], root };
    const values = { AUTHORITY_ROOT: "upstream", UPSTREAM_AUTHORITY };
    const crlRoots = ["on", "off"].map(async (CRL) => {
      return (await mintUnder({ ...values, CRL }, { keyCustody })).crlRoot?.signer;
    });
    expect(await Promise.all(crlRoots)).toEqual([["awskms:///x"], undefined]);
  });

  test("does not exist where the CA is its own root", async () => {
    expect((await mintUnder({})).upstream).toBeUndefined();
  });
});
