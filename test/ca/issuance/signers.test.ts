import { X509Certificate } from "node:crypto";
import { beforeEach, describe, expect, test } from "vitest";
import type { Authorities } from "../../../src/ca/authorities.ts";
import type { AuthorityView } from "../../../src/ca/authority-view.ts";
import { grantedOrder } from "../../../src/ca/issuance/internal/granted.ts";
import { uniteBundles } from "../../../src/ca/issuance/signers.ts";
import { bearer, callWithClient, connectJson } from "../../contract/rpc-calls.ts";
import { keks, loadAuthorities, sealed, start } from "../../testkit/ca/loaded-authorities.ts";
import { type RunningCa, serviceOf, startCa } from "../../testkit/ca/running-ca.ts";
import { createTokenKey, jwksOf } from "../../testkit/callers/tokens.ts";
import { createWorkload } from "../../testkit/callers/workload.ts";
import { endOf, refusalOf } from "../../testkit/refusal.ts";

const issuerA = "https://a.test";
const issuerB = "https://b.test";
const today = "2026-11-21";
const hour = 3600;

const key = await createTokenKey("ES256", "k1");
const { csrPem: csr } = await createWorkload();
let ca: RunningCa;

beforeEach(async () => {
  ca = await startCa(
    {
      MAX_WORKLOAD_CERT_TTL: "1h",
      DEFAULT_WORKLOAD_CERT_TTL: "1h",
      ISSUERS: [
        {
          issuer: issuerA,
          jwks: jwksOf(key),
          trusted_node_accounts: ["mesh/ztunnel"],
          node_reach: "anywhere",
        },
        { issuer: issuerB, cluster: "b", jwks: jwksOf(key) },
      ],
      SIGNERS: [
        {
          name: "payments.example",
          authority_key: "EC-P384",
          inception_date: today,
          callers: [{ issuer: issuerA, namespaces: ["pay-*"], accounts: ["till", "web-*"] }],
        },
        { name: "empty", callers: [{ issuer: issuerA }] },
      ],
    },
    { hasNoNamesake: true },
  );
});

/** Founds everything, and waits until the named signer may sign. */
async function found(): Promise<void> {
  await ca.found();
  await ca.rotate().catch(() => {});
  ca.pass(hour + 1);
}

type Metadata = Readonly<Record<string, string>>;

async function call(account: string, metadata: Metadata, issuer = issuerA, csrPem = csr) {
  const service = serviceOf(ca, key);
  const headers = await bearer(service, account, issuer);
  return callWithClient(connectJson, service, { csr: csrPem, metadata }, headers);
}

const endFor = (...how: Parameters<typeof call>): Promise<string> =>
  endOf(ca.log, () => call(...how));

const blocks = (pem: string): string[] =>
  pem.match(/-----BEGIN[^-]+-----[^-]+-----END[^-]+-----/g) ?? [];

async function issued(account: string, metadata: Metadata) {
  const outcome = await call(account, metadata);
  if (!("certChain" in outcome)) throw new Error(JSON.stringify(outcome));
  const [leafPem = "", roots = "", ...more] = outcome.certChain;
  expect(more).toEqual([]);
  const leaf = new X509Certificate(leafPem);
  const certificates = blocks(roots).map((pem) => new X509Certificate(pem));
  return { leaf, roots, signer: certificates.find((root) => leaf.verify(root.publicKey)) };
}

const payments = { CertSigner: "payments.example" };

describe("a named signer", () => {
  test("signs for callers that may use it, with the leaf and then every root as one (Istio's layout)", async () => {
    await found();
    const named = await issued("pay-eu:till", payments);
    const own = await issued("pay-eu:till", {});
    expect(named.leaf.subjectAltName).toBe("URI:spiffe://cluster.local/ns/pay-eu/sa/till");
    expect(named.signer?.publicKey.asymmetricKeyDetails).toEqual({ namedCurve: "secp384r1" });
    expect(own.signer?.publicKey.asymmetricKeyDetails).toEqual({ namedCurve: "prime256v1" });
    expect(named.roots).toBe(own.roots);
    expect(blocks(named.roots)).toHaveLength(2);
  });

  test("is in the trust bundle before it signs, and changes its sequence", async () => {
    await ca.found();
    const before = await (await ca.app.request("/bundle.json")).json();
    await ca.rotate().catch(() => {});
    ca.pass(61);
    const after = await (await ca.app.request("/bundle.json")).json();
    expect([before.keys, after.keys].map((each) => each.length)).toEqual([1, 2]);
    expect(after.spiffe_sequence).toBeGreaterThanOrEqual(before.spiffe_sequence);
    expect(await endFor("pay-eu:till", payments)).toBe("Unavailable no-signing-authority");
  });

  test("serves a node proxy for accounts that may use it, and for no others", async () => {
    await found();
    const naming = (account: string) => ({
      ...payments,
      ImpersonatedIdentity: `spiffe://cluster.local/ns/${account.replace(":", "/sa/")}`,
    });
    const { leaf } = await issued("mesh:ztunnel", naming("pay-eu:till"));
    expect(leaf.subjectAltName).toBe("URI:spiffe://cluster.local/ns/pay-eu/sa/till");
    expect(await endFor("mesh:ztunnel", naming("shop:till"))).toBe(
      "PermissionDenied signer-denied",
    );
  });

  test("leaves its name in the audit trail", async () => {
    await found();
    await issued("pay-eu:web-1", payments);
    await call("pay-eu:web-1", payments, issuerA, "no CSR");
    expect(ca.log.audits.slice(-2)).toMatchObject([
      { outcome: "issued", signer: "payments.example" },
      { outcome: "refused", reason: "csr-malformed", signer: "payments.example" },
    ]);
  });
});

describe("a signer is refused", () => {
  const denied = { code: "PermissionDenied", message: "caller may not use this signer" };
  const unknown = { code: "InvalidArgument", message: "no such signer" };

  beforeEach(found);

  test.each<[string, string, string, string]>([
    ["to another namespace", "shop:till", "payments.example", issuerA],
    ["to another account", "pay-eu:other", "payments.example", issuerA],
    ["to another issuer", "pay-eu:till", "payments.example", issuerB],
    ["to another issuer, where it has no authority", "pay-eu:till", "empty", issuerB],
  ])("%s", async (_, account, CertSigner, issuer) => {
    expect(await call(account, { CertSigner }, issuer)).toEqual(denied);
  });

  test.each([
    ["that nobody knows", "other"],
    ["with a space", " payments.example"],
    ["that every object has", "__proto__"],
    ["for serving, to who is no gateway", "serving"],
  ])("%s", async (_, CertSigner) => {
    expect(await call("pay-eu:till", { CertSigner })).toEqual(unknown);
  });

  test("that has no authority, without a fallback", async () => {
    expect(await endFor("pay-eu:till", { CertSigner: "empty" })).toBe(
      "Unavailable no-signing-authority",
    );
  });
});

test("a signer that a rule chooses and that only a restart opens signs nothing, and neither does another", async () => {
  const { issuance } = ca.certificateAuthority;
  const order = { product: { kind: "workload" as const }, authorities: issuance.authorities };
  const granted = { seconds: 60n, signer: "tomorrow.example", evidence: {} };
  const why = "the signer tomorrow.example of the rule tills is not open before a restart";
  expect(await refusalOf(async () => grantedOrder(order, granted, issuance, "tills"))).toEqual({
    reason: "no-signing-authority",
    why,
  });
});

describe("the records of a signer", () => {
  test("open in its own store alone", async () => {
    await found();
    const [record] = (await ca.signerStores.get("payments.example")?.load()) ?? [];
    if (!record) throw new Error("no record");
    await ca.store.put(record);
    await expect(ca.rotate()).rejects.toThrow();
    const refused = ca.log.operations.filter(({ event }) => event === "record-refused");
    expect(refused).toMatchObject([{ check: "seal", authority: record.id }]);
  });

  test("are founded on its day alone, and its absence is a failed run", async () => {
    await ca.found();
    await expect(ca.rotate()).rejects.toThrow(/INCEPTION_DATE/);
    expect((await ca.signerStores.get("empty")?.load())?.length).toBe(0);
    expect((await ca.signerStores.get("payments.example")?.load())?.length).toBe(1);
  });

  test("must be readable for any answer: a bundle without their roots would cut workloads off", async () => {
    await found();
    const store = ca.signerStores.get("payments.example");
    if (!store) throw new Error("no store");
    store.outage = new Error("down");
    ca.pass(hour);
    expect(await endFor("pay-eu:till", {})).toBe("Unavailable store-unreachable");
    expect((await ca.app.request("/bundle.pem")).status).toBe(503);
  });
});

const records = await Promise.all([sealed(), sealed(), sealed()]);

/** Three signers that have read their stores, which an authority has joined since. */
async function outdatedSigners() {
  const signers = records.map(() => loadAuthorities(keks));
  const united = signers.map(({ authorities }) =>
    uniteBundles(
      authorities,
      signers
        .filter((other) => other.authorities !== authorities)
        .map((other) => ({ authorities: other.authorities, sharesPostQuantum: false })),
    ),
  );
  const rootsAt = async () =>
    Promise.all(united.map(async (each) => (await each.at(start)).trustBundle.roots.length));
  expect(await rootsAt()).toEqual([0, 0, 0]);
  for (const [i, record] of records.entries()) await signers[i]?.store.put(record);
  return { signers, united, rootsAt };
}

describe("signers with one trust bundle", () => {
  test("all have the stores of all of them as they are when one is renewed", async () => {
    const { signers, united, rootsAt } = await outdatedSigners();
    expect(await rootsAt()).toEqual([0, 0, 0]);
    await united[1]?.renew(start);
    expect(await rootsAt()).toEqual([3, 3, 3]);
    expect(signers.map(({ store }) => store.loads)).toEqual([2, 2, 2]);
  });

  test.each([0, 1, 2])("are not renewed while store %i cannot be read", async (down) => {
    const { signers, united } = await outdatedSigners();
    const [first] = united;
    Object.assign(signers[down]?.store ?? {}, { outage: new Error("down") });
    await expect(first?.renew(start)).rejects.toHaveProperty("refusal.reason", "store-unreachable");
  });

  test("answer with their own intermediates, and the roots of all as one", async () => {
    const [own, other] = await Promise.all(
      records
        .slice(0, 2)
        .map(async (record) => loadAuthorities(keks, record).authorities.at(start)),
    );
    if (!own || !other) throw new Error("unreachable");
    const at = (view: AuthorityView): Authorities => ({ at: () => view, renew: async () => {} });
    const revocations = [{ authority: "aa" }] as unknown as AuthorityView["revocations"];
    const chain = ["intermediate", ...own.chainPem];
    const withIntermediate = { ...own, chainPem: chain, revocations };
    const united = uniteBundles(at(withIntermediate), [
      { authorities: at(other), sharesPostQuantum: false },
    ]);
    const { chainPem, trustBundle, sequence, ...more } = await united.at(start);
    expect(more.revocations).toBe(revocations);
    expect(chainPem).toEqual(["intermediate", trustBundle.pem]);
    expect(trustBundle.roots).toHaveLength(2);
    expect(sequence).toBe(Math.max(own.sequence, other.sequence));
    const later = { ...other, history: { ...other.history, changedAt: own.sequence + 1000 } };
    const withLater = uniteBundles(at(own), [{ authorities: at(later), sharesPostQuantum: false }]);
    expect((await withLater.at(start)).sequence).toBe(own.sequence + 1000);
  });

  test("show a change of any of them, and keep what they are while there is none", async () => {
    const views = await Promise.all(
      records.map(async (record) => loadAuthorities(keks, record).authorities.at(start)),
    );
    const [own, second, third] = views;
    if (!own || !second || !third) throw new Error("unreachable");
    let other: AuthorityView = second;
    const at = (view: () => AuthorityView): Authorities => ({ at: view, renew: async () => {} });
    const united = uniteBundles(
      at(() => own),
      [{ authorities: at(() => other), sharesPostQuantum: false }],
    );
    const before = await united.at(start);
    expect(await united.at(start)).toBe(before);
    const reversed = uniteBundles(
      at(() => other),
      [{ authorities: at(() => own), sharesPostQuantum: false }],
    );
    const idsOf = (view: AuthorityView) => view.crlIssuers.map(({ authority }) => authority.id);
    const after = await reversed.at(start);
    expect(idsOf(after)).toEqual(idsOf(before));
    expect(after.trustBundle.pem).toBe(before.trustBundle.pem);
    other = third;
    const { crlIssuers } = await united.at(start);
    expect(crlIssuers.map(({ authority }) => authority.id)).toEqual(
      [own, third].map(({ issuer }) => issuer?.authority.id).toSorted(),
    );
  });
});
