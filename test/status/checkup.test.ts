import { beforeAll, describe, expect, test } from "vitest";
import type { IssuerKeys, KeyState } from "../../src/authn/issuer-keys.ts";
import { AuthorityView } from "../../src/ca/authority-view.ts";
import { OpenedStore } from "../../src/ca/opened-store.ts";
import { Rotation } from "../../src/ca/rotation/rotate.ts";
import { Statement } from "../../src/custody/statement.ts";
import type { PushOutcome } from "../../src/delivery/push-to-cluster.ts";
import { addSeconds } from "../../src/pki/x509/validity.ts";
import { type CheckupSources, createCheckup } from "../../src/status/status.ts";
import { storeFindings } from "../../src/status/store-findings.ts";
import { createMemoryMint, type MemoryMint } from "../testkit/ca/memory-mint.ts";
import { createKekRing } from "../testkit/ca/sealed-authorities.ts";
import { tokenIssuerWithoutKeys } from "../testkit/callers/token-issuers.ts";
import { configurationOf } from "../testkit/configuration.ts";

const now = new Date("2026-11-21T12:00:00Z");

let view: AuthorityView;

beforeAll(async () => {
  const mint = createMemoryMint(await createKekRing());
  await Rotation.rotate(mint, addSeconds(now, -3600));
  view = AuthorityView.at(await opened(mint), now);
});

function found(changes: Partial<CheckupSources> = {}, own: AuthorityView = view) {
  const none = { clusters: [], outcomes: () => [] };
  const parts = { configuration: configurationOf({}), issuers: [], push: none, crlPush: none };
  const findings = createCheckup({ ...parts, ...changes })(new Map([["", own]]), now);
  return findings.map(({ name, what }) => [name, what]);
}

test("finds nothing in a CA that is well", () => {
  const issuers = [withState({ source: "issuer", keys: [], fetchedAt: now, unusable: [] })];
  expect(found({ issuers, ...pushes(outcome({ delivered: 3 })) })).toEqual([]);
});

test("counts the keys for tokens that no backup has", async () => {
  const mint = createMemoryMint(await createKekRing(), { inceptionDate: "2026-11-18" });
  const { trustDomain, keks } = mint;
  const before = addSeconds(now, -3 * 86_400);
  await Rotation.rotate(mint, before);
  const backup = async (madeAt: Date) =>
    mint.store.put(await Statement.seal("backup", { madeAt }, { trustDomain, keks }));
  const findings = async () => found({}, AuthorityView.at(await opened(mint), now));
  await backup(addSeconds(before, 600));
  expect(await findings()).toEqual([]);
  await Rotation.rotate({ ...mint, tokenAlgorithm: "ES256" }, addSeconds(before, 3600));
  const [[name, what] = []] = await findings();
  expect(name).toBe("backup-old");
  expect(what).toMatch(/^The last backup is of .*Z; 1 of 1 keys for tokens are in none\.$/);
  const [key] = (await opened(mint)).tokenKeys;
  const taint = { id: key?.id ?? "", taintedAt: now, retiresAt: now };
  const stated = await Statement.seal("taint", taint, { trustDomain, keks });
  await mint.store.put(stated);
  expect(await findings()).toEqual([]);
  await mint.store.delete(stated);
  // The key is published ten minutes after it was made.
  await backup(addSeconds(before, 3700));
  expect(await findings()).toEqual([]);
});

/** The store of a mint, opened anew. */
const opened = async (mint: MemoryMint) => OpenedStore.open(await mint.store.load(), mint);

test("asks for the successor that a taint leaves out, and quotes the glob of a denial that ends now", async () => {
  const mint = createMemoryMint(await createKekRing());
  await Rotation.rotate(mint, addSeconds(now, -3600));
  const [{ id } = { id: "" }] = await mint.store.load();
  const taint = { id, taintedAt: now, retiresAt: addSeconds(now, 86_400) };
  const denial = { subject: "ns/shop/sa/*", knownFrom: new Date(0), until: now };
  await mint.store.put(await Statement.seal("taint", taint, mint));
  await mint.store.put(await Statement.seal("denial", denial, mint));
  const findings = storeFindings(await opened(mint), undefined, now);
  const remedies = new Map(findings.map(({ name, remedy }) => [name, remedy]));
  expect([...remedies.keys()]).toContain("authority-successor-late");
  expect(remedies.get("denial-ended")).toContain("deny remove 'ns/shop/sa/*'`");
});

describe("a configuration", () => {
  const inside = (values: object) => found({ configuration: configurationOf({ ...values }) });

  test("with an example is an error", () => {
    expect(inside({ ISSUERS: [{ issuer: "https://oidc.example.com" }] })).toEqual([
      ["configuration-example", "ISSUERS has the example issuer https://oidc.example.com."],
    ]);
  });

  test("with weak settings says so as a start does", () => {
    expect(inside({ TRUST_DOMAIN: "mesh" })).toEqual([
      ["configuration-warning", expect.stringContaining("TRUST_DOMAIN mesh is a single label")],
    ]);
  });

  test("is compared once, and not for each reader of the page", () => {
    let reads = 0;
    const { issuers, ...rest } = configurationOf({});
    const configuration = Object.defineProperty({ ...rest, issuers }, "issuers", {
      get: () => {
        reads++;
        return issuers;
      },
    });
    const none = { clusters: [], outcomes: () => [] };
    const checkup = createCheckup({ configuration, issuers: [], push: none, crlPush: none });
    for (let i = 0; i < 3; i++) checkup(new Map(), now);
    expect(reads).toBe(1);
  });
});

describe("an issuer", () => {
  const failure = { at: now, detail: "answered with status 503" };
  const unusable = ["old-key-0123: it is no JWK"];

  test("whose keys cannot be fetched is unreachable, even while older ones serve", () => {
    const issuers = [withState({ source: "issuer", keys: [], fetchedAt: now, failure })];
    const what =
      "The keys of https://a.test (cluster a) cannot be loaded: it answered with status 503.";
    expect(found({ issuers })).toEqual([["issuer-unreachable", what]]);
  });

  test.each(["issuer", "configuration"] as const)(
    "with a key of the %s that cannot be used",
    (source) => {
      const issuers = [withState({ source, keys: [], unusable })];
      const what =
        "https://a.test (cluster a) has a key that Rampart cannot use, old-key-0123: it is no JWK.";
      expect(found({ issuers })).toEqual([["issuer-key-unusable", what]]);
    },
  );

  test.each([undefined, { source: "issuer", keys: [] } as const])(
    "whose keys nobody has needed yet has no finding: %j",
    (state) => {
      expect(found({ issuers: [withState(state)] })).toEqual([]);
    },
  );
});

describe("a cluster", () => {
  test("in which the push could not write has old bundles, or none", () => {
    const fault = "for namespace shop the API server answered with status 403";
    expect(found(pushes(outcome({ delivered: 0, missing: 1, fault })))).toEqual([
      ["bundle-missing", "1 of 3 namespaces of a have no trust bundle."],
      ["bundle-stale", "2 of 3 namespaces of a have another trust bundle than the CA publishes."],
    ]);
  });

  test("that does not answer is away", () => {
    const fault = "the API server answered with status 401";
    expect(found(pushes(outcome({ namespaces: 0, fault })))).toEqual([
      ["cluster-away", `The roots in a cannot be looked at: ${fault}.`],
    ]);
  });

  test("with roots that a rotation has just replaced is left to the next push", () => {
    const before = { sequence: view.sequence - 1, delivered: 1, missing: 2 };
    expect(found(pushes(outcome(before)))).toEqual([]);
  });

  test("has findings about CRLs where the CA makes them", () => {
    const fault = "the API server answered with status 403";
    const crlPush = {
      clusters: [],
      outcomes: () => [
        outcome({ sequence: 7, delivered: 1, missing: 1, fault }),
        outcome({ cluster: "b", namespaces: 0, fault }),
      ],
    };
    expect(found({ configuration: configurationOf({ CRL: "on" }), crlPush })).toEqual([
      ["cluster-away", `The CRLs in b cannot be looked at: ${fault}.`],
      ["crl-missing", "1 of 3 namespaces of a have no CRLs."],
      ["crl-stale", "1 of 3 namespaces of a have old CRLs."],
    ]);
    expect(found({ crlPush })).toEqual([]);
  });
});

function withState(state: KeyState | undefined) {
  const keys: IssuerKeys = Object.assign(() => [], state && { state: () => state });
  return tokenIssuerWithoutKeys("https://a.test", { cluster: "a", keys });
}

const outcome = (changes: Partial<PushOutcome>): PushOutcome => ({
  cluster: "a",
  sequence: view.sequence,
  namespaces: 3,
  delivered: 0,
  written: 0,
  missing: 0,
  since: undefined,
  fault: undefined,
  ...changes,
});

const pushes = (...outcomes: readonly PushOutcome[]): Pick<CheckupSources, "push"> => ({
  push: { clusters: [], outcomes: () => outcomes },
});
