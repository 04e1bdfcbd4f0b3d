import { expect, test } from "vitest";
import { Mint } from "../../../src/ca/mint.ts";
import type { RevocationContent } from "../../../src/custody/record-kinds.ts";
import { Statement } from "../../../src/custody/statement.ts";
import { AdditionalRoot } from "../../../src/pki/authority/trust-bundle.ts";
import { CrlEntries } from "../../../src/pki/x509/crl/crl-entries.ts";
import { addSeconds, wholeSeconds } from "../../../src/pki/x509/validity.ts";
import { type Means, type RunningCa, startCa } from "../../testkit/ca/running-ca.ts";
import { decideTaint, propagation, signerOf, startSigningCa } from "../../testkit/ca/tainted-ca.ts";
import { issuerWithKeys, randomKek } from "../../testkit/configuration.ts";
import { crlBlocks, readCrl } from "../../testkit/pki/crls.ts";
import { createRoot } from "../../testkit/pki/foreign-root.ts";

const hour = 3600;
const { issuer } = issuerWithKeys;
const get = async ({ app }: RunningCa, path: string, headers: HeadersInit = {}) =>
  app.request(path, { headers });
const start = (values: object = {}, means: Means = {}) =>
  startSigningCa({ CRL: "on", ...values }, means);

async function revoke(ca: RunningCa, serial: string, others: Partial<RevocationContent> = {}) {
  const now = wholeSeconds(ca.now());
  const { mint } = ca;
  const content = {
    authority: (await signerOf(ca)) ?? "",
    revokedAt: now,
    knownFrom: addSeconds(now, mint.phaseLengths.propagationSeconds),
    reason: "keyCompromise" as const,
    certificates: new Map([[serial, addSeconds(now, 24 * hour).getTime() / 1000]]),
    ...others,
  };
  await ca.store.put(await Statement.seal("revocation", content, mint));
}

async function crlsOf(ca: RunningCa) {
  const text = await (await get(ca, "/crl.pem")).text();
  return crlBlocks(text).map(readCrl);
}

test.each(["/crl.pem", "/crl/00.crl", "/crl/"])("without CRL, %s is not found", async (path) => {
  const ca = await startSigningCa();
  expect((await get(ca, path)).status).toBe(404);
});

test("an empty CRL of the authority is there from the beginning", async () => {
  const ca = await start({}, { hasNoNamesake: true });
  const [crl, ...more] = await crlsOf(ca);
  expect(more).toEqual([]);
  expect(crl).toMatchObject({ issuer: "O=cluster.local", entries: [] });
  expect(crl?.nextUpdate?.getTime()).toBeGreaterThanOrEqual(
    addSeconds(ca.now(), 18 * hour).getTime(),
  );
});

test("the CRL of one authority is DER, the same as in /crl.pem", async () => {
  const ca = await start();
  const response = await get(ca, `/crl/${await signerOf(ca)}.crl`);
  expect(response.headers.get("content-type")).toBe("application/pkix-crl");
  const der = Buffer.from(await response.arrayBuffer());
  const [block = ""] = crlBlocks(await (await get(ca, "/crl.pem")).text());
  expect(block.replace(/-----[^-]*-----|\n/g, "")).toBe(der.toString("base64"));
});

test("a path that is no CRL's is not found", async () => {
  const ca = await start();
  for (const path of ["/crl/00.crl", "/crl/.crl", "/crl/../crl.pem/", "/crl.der", "/crl/x.crl"])
    expect((await get(ca, path)).status, path).toBe(404);
});

test("the CRL keeps its bytes and its ETag while nothing changes, and gets new ones in each period", async () => {
  const ca = await start();
  const first = await get(ca, "/crl.pem");
  const [{ number = 0n } = {}] = await crlsOf(ca);
  const etag = first.headers.get("etag") ?? "";
  expect(etag).toMatch(/^W\/"[0-9a-f]{32}"$/);
  ca.pass(60);
  const again = await get(ca, "/crl.pem");
  expect(await again.text()).toBe(await first.text());
  const held = await get(ca, "/crl.pem", { "if-none-match": etag });
  expect([held.status, held.headers.get("etag")]).toEqual([304, etag]);
  ca.pass(6 * hour);
  const later = await get(ca, "/crl.pem", { "if-none-match": etag });
  expect(later.status).toBe(200);
  expect(readCrl(await later.text()).number).toBeGreaterThan(number);
});

test("two processes that know the same revocations give the same ETag", async () => {
  const values = { CRL: "on", KEK: randomKek() };
  const ca = await startSigningCa(values);
  const { store } = ca;
  const other = await startCa({ ...values, PROPAGATION_INTERVAL: `${propagation}s` }, { store });
  other.pass(2 * propagation);
  await revoke(ca, "01ab");
  for (const each of [ca, other]) each.pass(60);
  const tags = await Promise.all(
    [ca, other].map(async (each) => (await get(each, "/crl.pem")).headers.get("etag")),
  );
  expect(tags[0]).toBe(tags[1]);
});

test("every authority in the bundle has a CRL, tainted or not, and none that has left it", async () => {
  const ca = await start({}, { hasNoNamesake: true });
  const tainted = await signerOf(ca);
  await Mint.recordTaint(ca.mint, await decideTaint(ca, "with-last-leaf"));
  await ca.rotate();
  ca.pass(3 * hour);
  const successor = await signerOf(ca);
  expect(successor).not.toBe(tainted);
  for (const id of [tainted, successor]) {
    expect((await get(ca, `/crl/${id}.crl`)).status).toBe(200);
  }
  expect((await crlsOf(ca)).length).toBe(2);
  await Mint.recordTaint(ca.mint, await decideTaint(ca, "immediately", tainted));
  ca.pass(60);
  expect((await get(ca, `/crl/${tainted}.crl`)).status).toBe(404);
  expect((await crlsOf(ca)).length).toBe(1);
});

test("a store that is down leaves the CRLs for a while, and then gives 503", async () => {
  const ca = await start();
  await crlsOf(ca);
  ca.store.outage = new Error("KV GET failed: 500");
  ca.pass(300);
  expect((await get(ca, "/crl.pem")).status).toBe(200);
  ca.pass(1000);
  const response = await get(ca, "/crl.pem");
  expect(response.status).toBe(503);
  expect(await response.text()).not.toContain("KV");
});

test("/readyz names a root without a CRL, and is ready all the same", async () => {
  const ca = await start();
  const readiness = async () => (await get(ca, "/readyz")).json();
  expect(await readiness()).toMatchObject({ ready: true, reasons: [] });
  const der = await createRoot({ notAfter: addSeconds(ca.now(), 1000 * hour) });
  const root = await AdditionalRoot.create(der, ca.now());
  await ca.store.put(await Statement.seal("root", root, ca.mint));
  ca.pass(60);
  expect(await readiness()).toMatchObject({
    ready: true,
    reasons: [`no CRL of the root with the SHA-256 fingerprint ${root.id} is known`],
  });
});

test("an empty store has no CRL", async () => {
  const ca = await start();
  for (const record of await ca.store.load()) await ca.store.delete(record);
  ca.pass(60);
  expect((await get(ca, "/crl.pem")).status).toBe(503);
});

test("a CRL of several hundred kilobytes arrives whole", async () => {
  const ca = await start();
  const end = addSeconds(ca.now(), 24 * hour).getTime() / 1000;
  const serials = Array.from({ length: 4000 }, (_, i) => `01${i.toString(16).padStart(32, "0")}`);
  for (const first of ["1", "2"]) {
    const certificates = new Map(
      serials.map((each) => [each.replace("0", first), Math.floor(end)]),
    );
    await revoke(ca, "01", { certificates });
  }
  ca.pass(60);
  const [block = ""] = crlBlocks(await (await get(ca, "/crl.pem")).text());
  const der = Uint8Array.from(Buffer.from(block.replace(/-----[^-]*-----|\n/g, ""), "base64"));
  expect(der.length).toBeGreaterThan(256 * 1024);
  expect(CrlEntries.parse(der).serialNumbers.size).toBe(8000);
  expect((await get(ca, "/crl.pem")).headers.get("content-type")).toBe("application/x-pem-file");
});

test("the key set of tokens is 503 before the first key, and without keys after the taint of the only one", async () => {
  const ca = await startCa({ JWT_ISSUER: "https://ca.test", PROPAGATION_INTERVAL: "10m" });
  await ca.rotate();
  const path = "/.well-known/jwks.json";
  expect((await get(ca, path)).status).toBe(503);
  ca.pass(hour);
  const { keys } = await (await get(ca, path)).json();
  expect(keys).toHaveLength(1);
  const [{ kid: id }] = keys;
  await Mint.recordTaint(ca.mint, { id, taintedAt: ca.now(), retiresAt: ca.now() });
  ca.pass(hour);
  const after = await get(ca, path);
  expect([after.status, await after.json()]).toEqual([200, { keys: [] }]);
});

test("the documents of tokens cost the store no read, however many ask for them", async () => {
  const ca = await startCa({ JWT_ISSUER: "https://ca.test", PROPAGATION_INTERVAL: "10m" });
  await ca.rotate();
  ca.pass(hour);
  const paths = ["/.well-known/openid-configuration", "/.well-known/jwks.json", "/bundle.json"];
  const tags = await Promise.all(
    paths.map(async (path) => (await get(ca, path)).headers.get("etag") ?? ""),
  );
  const { loads } = ca.store;
  expect(loads).toBeGreaterThan(0);
  for (let i = 0; i < 10; i++) {
    for (const [at, path] of paths.entries()) {
      expect((await get(ca, path)).status).toBe(200);
      expect((await get(ca, path, { "if-none-match": tags[at] ?? "" })).status).toBe(304);
    }
  }
  expect(ca.store.loads).toBe(loads);
});

test("a named signer has its own bundle, and none once a changed configuration has it no more", async () => {
  const named = { authority_key: "ML-DSA-65", inception_date: "2026-11-21", callers: [{ issuer }] };
  const ca = await startCa({
    MAX_WORKLOAD_CERT_TTL: "1h",
    DEFAULT_WORKLOAD_CERT_TTL: "1h",
    SIGNERS: ["a", "b"].map((name) => ({ ...named, name })),
  });
  await ca.found();
  await ca.rotate();
  ca.pass(hour);
  const bundleOf = async (name: string) => (await get(ca, `/signer/${name}/bundle.pem`)).text();
  const [a, b] = [await bundleOf("a"), await bundleOf("b")];
  expect(a).toContain("BEGIN CERTIFICATE");
  expect(b).not.toBe(a);
  const { issuance } = ca.certificateAuthority;
  Object.assign(issuance, { signers: new Map([...issuance.signers].slice(1)) });
  expect(await bundleOf("a")).toBe("not found\n");
  expect(await bundleOf("b")).toBe(b);
});

test("after a changed configuration the discovery document names the algorithm that signs then", async () => {
  const ca = await startCa({ JWT_ISSUER: "https://ca.test/mesh" });
  await ca.rotate();
  const { issuance } = ca.certificateAuthority;
  Object.assign(issuance, { tokens: { ...issuance.tokens, algorithm: "RS256" } });
  const discovery = await (await get(ca, "/mesh/.well-known/openid-configuration")).json();
  expect(discovery.id_token_signing_alg_values_supported).toContain("RS256");
});
