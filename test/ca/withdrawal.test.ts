import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { forwardedHeader, forwardedValue } from "../../src/authn/forwarding-headers.ts";
import { issueCertificate } from "../../src/ca/issuance/issue-certificate.ts";
import { Mint } from "../../src/ca/mint.ts";
import { foundIfEmpty, Rotation } from "../../src/ca/rotation/rotate.ts";
import { Composition } from "../../src/config/composition.ts";
import { Configuration } from "../../src/config/configuration.ts";
import type { StoredRecord } from "../../src/custody/authority-store.ts";
import type { DenialContent, RevocationContent } from "../../src/custody/record-kinds.ts";
import { Statement } from "../../src/custody/statement.ts";
import { CaError } from "../../src/foundation/errors.ts";
import type { Refusal } from "../../src/foundation/refusal.ts";
import { NewAuthority } from "../../src/pki/authority/new-authority.ts";
import { AdditionalRoot } from "../../src/pki/authority/trust-bundle.ts";
import { Bytes, Hex } from "../../src/pki/encoding/bytes.ts";
import { Pem } from "../../src/pki/encoding/pem.ts";
import { webCryptoProvider } from "../../src/pki/web-crypto.ts";
import { Certificate } from "../../src/pki/x509/certificate.ts";
import { addSeconds } from "../../src/pki/x509/validity.ts";
import { CaRoutes } from "../../src/transport/http/routes.ts";
import { createMemoryStore, type MemoryStore } from "../testkit/ca/memory-store.ts";
import { scheduleAfter } from "../testkit/ca/sealed-authorities.ts";
import {
  createTokenKey,
  jwksOf,
  mintAccountToken,
  type TokenKey,
} from "../testkit/callers/tokens.ts";
import { createWorkload } from "../testkit/callers/workload.ts";
import { randomKek } from "../testkit/configuration.ts";
import { createEventRecorder } from "../testkit/log/event-recorder.ts";
import { noFetching } from "../testkit/network/no-fetching.ts";
import { crlBlocks, readCrl } from "../testkit/pki/crls.ts";

const begin = new Date("2026-11-21T12:00:00Z");
const instant = begin.toISOString();
const issuer = "https://a.test";
const KEK = randomKek();

let key: TokenKey;
let csrPem: string;
let own: MemoryStore;
let ofSigner: MemoryStore;
let ca: Composition;

/** A CA of one issuer and one named signer, on the stores of the test. Its configuration withdraws others already. */
function compose(values: object = {}): Promise<Composition> {
  const gateways = [{ account: "edge/gateway", dns_names: ["a.test"] }];
  const until = addSeconds(begin, 3600).toISOString();
  const callers = [{ issuer, namespaces: ["*"], accounts: ["*"] }];
  return Composition.compose(
    Configuration.parse({
      ISSUERS: [{ issuer, cluster: "a", jwks: jwksOf(key), gateways }],
      KEK,
      SIGNERS: [{ name: "team-a", inception_date: "2026-11-21", callers }],
      INCEPTION_DATE: "2026-11-21",
      PROPAGATION_INTERVAL: "0s",
      CRL: "on",
      DENIED: ["ns/any/sa/body"],
      REVOKED: [{ authority: "cd".repeat(20), serials: ["0a"], since: instant, until }],
      ...values,
    }),
    {
      store: own,
      signerStore: () => ofSigner,
      fetching: noFetching,
      cryptoProvider: webCryptoProvider,
      log: createEventRecorder(),
      clock: () => begin,
    },
  );
}

beforeAll(async () => {
  key = await createTokenKey("ES256", "k1");
  ({ csrPem } = await createWorkload());
});

beforeEach(async () => {
  [own, ofSigner] = [createMemoryStore(), createMemoryStore()];
  ca = await compose();
  for (const each of [ca.mint, ...ca.signerMints.values()]) await foundIfEmpty(each, begin);
});

/** The parts of a request that a test changes. */
interface Asked {
  readonly account?: string;
  /** The leaf of the caller, instead of a token. */
  readonly leaf?: string | undefined;
  readonly hasToken?: boolean;
  readonly claims?: Readonly<Record<string, unknown>>;
  /** The client of the caller, which is a gateway. */
  readonly forwarded?: string;
  readonly now?: Date;
}

/** Asks the CA for a certificate as a workload does. */
async function ask(asked: Asked = {}): Promise<string> {
  const { account = "shop:cart", leaf, hasToken = !leaf, claims, forwarded, now = begin } = asked;
  const { authenticate, issuance } = ca.certificateAuthority;
  const headers = new Headers();
  if (hasToken) {
    const token = await mintAccountToken(key, issuer, account, now, claims);
    headers.set("authorization", `Bearer ${token}`);
  }
  if (forwarded !== undefined) headers.set(forwardedHeader, forwarded);
  const clientCertificate = leaf ? Pem.parse(leaf, ["CERTIFICATE"]) : undefined;
  const caller = await authenticate({ headers, clientCertificate }, now);
  const request = { csrPem, requestedSeconds: 0n, impersonatedIdentity: "", certSigner: "" };
  const [issued = ""] = await issueCertificate(issuance, caller, request, {
    now,
    signal: new AbortController().signal,
    audit: { event: "create-certificate", outcome: "refused", requestId: "1" },
  });
  return issued;
}

/** The refusal of a request; `undefined` if it gets a certificate. */
const refusal = (asked: Asked = {}): Promise<Refusal | undefined> =>
  ask(asked).then(
    () => undefined,
    (error: unknown) => {
      if (error instanceof CaError) return error.refusal;
      throw error;
    },
  );

const viewOf = ({ certificateAuthority }: Composition) =>
  certificateAuthority.issuance.authorities.at(begin);
const signerOf = async (composition: Composition) =>
  (await viewOf(composition)).issuer?.authority.id;

async function deny(subject: string, others: Partial<DenialContent> = {}) {
  const sealed = await Statement.seal("denial", { subject, knownFrom: begin, ...others }, ca.mint);
  await own.put(sealed);
  return sealed;
}

/** The authority and the serial number of a leaf. */
async function named(leaf: string) {
  const certificate = Certificate.parse(Pem.parse(leaf, ["CERTIFICATE"]) ?? new Uint8Array());
  return {
    authority: (await signerOf(ca)) ?? "",
    serial: Hex.format(certificate.toBeSigned.serialNumber),
  };
}

async function revoke(leaf: string, others: Partial<RevocationContent> = {}) {
  const { authority, serial } = await named(leaf);
  const content: RevocationContent = {
    authority,
    revokedAt: begin,
    knownFrom: begin,
    reason: "keyCompromise",
    certificates: new Map([[serial, addSeconds(begin, 24 * 3600).getTime() / 1000]]),
    ...others,
  };
  const sealed = await Statement.seal("revocation", content, ca.mint);
  await own.put(sealed);
  return sealed;
}

const denied = (subject: string) => ({ reason: "denied", subject });
const revoked = { reason: "credential-rejected", check: "revoked" };

describe("a denial", () => {
  test.each([
    ["spiffe://cluster.local/ns/shop/sa/cart", true],
    ["ns/sh*/sa/*t", true],
    ["cluster/a", true],
    ["ns/sho/sa/cart", false],
    ["ns/*/sa/car", false],
    ["cluster/b", false],
  ])("of %s refuses the token and the certificate of the cart: %s", async (subject, isDenied) => {
    const leaf = await ask();
    expect(await refusal({ leaf })).toBeUndefined();
    await deny(subject);
    const expected = isDenied ? denied(subject) : undefined;
    expect([await refusal(), await refusal({ leaf })]).toEqual([expected, expected]);
  });

  test("of what only a token shows refuses certificates whose token is older, and no younger one", async () => {
    const claims = (uid: string) => ({
      "kubernetes.io": {
        namespace: "shop",
        pod: { name: "cart-0", uid },
        serviceaccount: { name: "cart", uid: "9a8b7c6d-5e4f-4a3b-8c2d-1e0f9a8b7c6d" },
      },
    });
    const leaf = await ask({ claims: claims("uid-1") });
    const knownFrom = addSeconds(begin, 120);
    await deny("pod/uid-1", { knownFrom });
    const elsewhere = { claims: claims("uid-9") };
    const during = await ask({ ...elsewhere, now: knownFrom });
    const after = await ask({ ...elsewhere, now: addSeconds(knownFrom, 1) });
    const now = addSeconds(knownFrom, 60);
    expect(await refusal({ leaf, now })).toEqual(denied("pod/uid-1"));
    expect(await refusal({ leaf: during, now })).toEqual(denied("pod/uid-1"));
    expect(await refusal({ leaf: after, now })).toBeUndefined();
  });

  test("ends at its end, or when it is removed", async () => {
    const until = addSeconds(begin, 60);
    const record = await deny("ns/shop/sa/*", { until });
    expect(await refusal({ now: addSeconds(begin, 59) })).toEqual(denied("ns/shop/sa/*"));
    expect(await refusal({ now: until })).toBeUndefined();
    await own.delete(record);
    expect(await refusal()).toBeUndefined();
  });

  test("counts in the configuration, whatever the store holds", async () => {
    ca = await compose({
      DENIED: ["ns/shop/sa/cart", { subject: "node/node-8", since: instant }],
    });
    expect(await refusal()).toEqual(denied("ns/shop/sa/cart"));
    expect(await refusal({ account: "shop:till" })).toBeUndefined();
  });
});

test.each<[string, (leaf: string) => Promise<StoredRecord>, string, string]>([
  ["denial", () => deny("ns/shop/sa/*"), "ns/shop", "ns/shoq"],
  ["revocation", (leaf) => revoke(leaf), "keyCompromise", "superseded"],
])(
  "a %s that somebody else wrote or renamed has no effect, and is reported",
  async (kind, write, text, forgery) => {
    const leaf = await ask();
    const record = await write(leaf);
    await own.delete(record);
    const renamed = { ...record, id: "ab".repeat(32) };
    const forged = { ...record, value: record.value.replace(text, forgery) };
    for (const each of [renamed, forged]) {
      await own.put(each);
      const line = expect.stringMatching(`^the ${kind} [0-9a-f]{64} does not open`);
      expect((await viewOf(ca)).reasons).toEqual([line]);
      expect(await refusal({ leaf })).toBeUndefined();
      await own.delete(each);
    }
  },
);

describe("a revocation", () => {
  const through = (leaf: string): Asked => ({
    account: "edge:gateway",
    forwarded: forwardedValue(leaf, "spiffe://cluster.local/ns/shop/sa/cart"),
  });

  async function crls() {
    const response = await CaRoutes.create(ca.certificateAuthority).request("/crl.pem");
    return crlBlocks(await response.text()).map(readCrl);
  }

  test("makes a certificate a credential no more, by itself or through a gateway, until its holder shows a token", async () => {
    const leaf = await ask();
    expect([await refusal({ leaf }), await refusal(through(leaf))]).toEqual([undefined, undefined]);
    await revoke(leaf);
    expect([await refusal({ leaf }), await refusal(through(leaf))]).toEqual([revoked, revoked]);
    const next = await ask({ leaf, hasToken: true });
    expect(await refusal({ leaf: next })).toBeUndefined();
  });

  test("of a gateway's certificate leaves nothing to its clients", async () => {
    const { forwarded = "" } = through(await ask());
    const gateway = await ask({ account: "edge:gateway" });
    await revoke(gateway);
    expect(await refusal({ leaf: gateway, forwarded })).toEqual(revoked);
  });

  test.each<[string, Partial<RevocationContent>]>([
    ["another certificate", { certificates: new Map([["01ab", 1_800_000_000]]) }],
    ["the same number of another authority", { authority: "ab".repeat(20) }],
  ])("of %s changes nothing", async (_, others) => {
    const leaf = await ask();
    await revoke(leaf, others);
    expect(await refusal({ leaf })).toBeUndefined();
  });

  test("puts a certificate on the CRL of its authority, and on no other", async () => {
    const leaf = await ask();
    const { serial } = await named(leaf);
    expect((await crls()).map(({ entries }) => entries)).toEqual([[], []]);
    await revoke(leaf);
    const lists = (await crls()).map(({ entries }) => entries);
    expect(lists.toSorted((a, b) => a.length - b.length)).toEqual([[], [[serial, 1]]]);
  });

  test("counts in the configuration, whatever the store holds", async () => {
    const leaf = await ask();
    const { authority, serial } = await named(leaf);
    const until = "2026-11-22T13:00:00Z";
    ca = await compose({ REVOKED: [{ authority, serials: [serial], since: instant, until }] });
    expect(await refusal({ leaf })).toEqual(revoked);
    expect((await crls()).flatMap(({ entries }) => entries)).toEqual([[serial, undefined]]);
  });
});

describe("TAINTED_AUTHORITIES", () => {
  let records: readonly StoredRecord[];
  let id: string;

  const composed = (TAINTED_AUTHORITIES: readonly unknown[] | string = []) =>
    compose({ TAINTED_AUTHORITIES });
  const taintNow = () => Mint.recordTaint(ca.mint, { id, taintedAt: begin, retiresAt: begin });
  const dropTaints = async () => {
    for (const record of await own.load()) if (record.kind === "taint") await own.delete(record);
  };

  beforeEach(async () => {
    records = await own.load();
    id = (await signerOf(ca)) ?? "";
  });

  const lacking = () => `the store lacks the taint of ${id} that TAINTED_AUTHORITIES states`;

  test("has an authority sign no more that would sign again, because the store loses its taint", async () => {
    await taintNow();
    expect(await signerOf(await composed())).toBeUndefined();
    await dropTaints();
    expect(await signerOf(await composed())).toBe(id);
    const stating = await composed([{ id, root_until: instant }]);
    const { issuer, trustBundle, reasons } = await viewOf(stating);
    expect([issuer, trustBundle.roots.length]).toEqual([undefined, 1]);
    expect(reasons).toEqual(["no authority signs at this time", lacking()]);
    const readiness = await CaRoutes.create(stating.certificateAuthority).request("/readyz");
    expect(readiness.status).toBe(503);
    await Rotation.rotate(stating.mint, begin);
    expect([undefined, id]).not.toContain(await signerOf(await composed([id])));
  });

  test("counts when a backup from before brings everything back", async () => {
    await taintNow();
    for (const record of await own.load()) await own.delete(record);
    for (const record of records) await own.put(record);
    expect(await signerOf(await composed())).toBe(id);
    expect(await signerOf(await composed([id]))).toBeUndefined();
  });

  test("keeps the root while it gives no instant, signs nothing, and vouches for no leaf", async () => {
    const { vouching: before } = await viewOf(ca);
    expect(before.map((authority) => authority.id)).toContain(id);
    const { issuer, trustBundle, reasons, vouching } = await viewOf(await composed([id]));
    expect([issuer, trustBundle.roots.length]).toEqual([undefined, 2]);
    expect(vouching.map((authority) => authority.id)).not.toContain(id);
    expect(reasons).toContain(lacking());
    expect(reasons).toContainEqual(
      expect.stringMatching(`^${id} is tainted, and its root trusted until 20`),
    );
  });

  test("names an authority by its first 16 characters, as JSON in a text", async () => {
    expect(await signerOf(await composed(JSON.stringify([id.slice(0, 16)])))).toBeUndefined();
  });

  test("counts for the authorities of a named signer", async () => {
    const [{ id: theirs = "" } = {}] = await ofSigner.load();
    const stating = await composed([theirs]);
    const signer = stating.certificateAuthority.issuance.signers.get("team-a");
    expect((await signer?.authorities.at(begin))?.issuer).toBeUndefined();
    expect(await signerOf(stating)).toBe(id);
  });

  test("takes the root of another CA from the bundle at the instant that it says", async () => {
    const schedule = scheduleAfter(begin, [-60, -60, 3600, 7200]);
    const { authority } = await NewAuthority.create(ca.mint.trustDomain, "EC-P256", schedule);
    const { der } = authority.certificate;
    const root = AdditionalRoot.create(der, new Date(0));
    await own.put(await Statement.seal("root", root, ca.mint));
    const holdsIt = async (stated: readonly unknown[]) =>
      (await viewOf(await composed(stated))).trustBundle.roots.some((each) =>
        Bytes.equal(each, der),
      );
    expect([await holdsIt([]), await holdsIt([root.id])]).toEqual([true, true]);
    expect(await holdsIt([{ id: root.id, root_until: instant }])).toBe(false);
  });

  test("does nothing to an authority of another id", async () => {
    const other = `${id.startsWith("0") ? "1" : "0"}${id.slice(1)}`;
    const { issuer, reasons } = await viewOf(await composed([other, "ab".repeat(20)]));
    expect([issuer?.authority.id, reasons]).toEqual([id, []]);
  });

  test("gives every reader the bundle and the number that the record gives", async () => {
    await taintNow();
    const stored = await viewOf(await composed());
    const both = await viewOf(await composed([{ id, root_until: instant }]));
    await dropTaints();
    const stated = await viewOf(await composed([{ id, root_until: instant }]));
    for (const view of [both, stated]) {
      expect([view.sequence, view.trustBundle.pem]).toEqual([
        stored.sequence,
        stored.trustBundle.pem,
      ]);
    }
    expect(both.reasons).not.toContain(lacking());
  });
});
