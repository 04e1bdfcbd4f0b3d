import { decodeProtectedHeader } from "jose";
import { expect, test } from "vitest";
import { Mint } from "../../src/ca/mint.ts";
import { TokenKey } from "../../src/pki/jose/token-key.ts";
import { issuerTables } from "../contract/service-under-test.ts";
import { revokeCertificates } from "../testkit/ca/revoke-certificates.ts";
import { type RunningCa, startCa } from "../testkit/ca/running-ca.ts";
import {
  issueLeaf,
  openStore,
  publishedBundle,
  refresh,
  signerOf,
  startSigningCa,
  taint,
} from "../testkit/ca/tainted-ca.ts";
import { createTokenKey, jwksOf, mintAccountToken } from "../testkit/callers/tokens.ts";
import { readCrl } from "../testkit/pki/crls.ts";

/** Has another process take the root of the authority that signs out of the bundle within the n-th read, and mint another. */
async function withdrawAmid(ca: RunningCa, n: number): Promise<void> {
  const id = await signerOf(ca);
  ca.store.changeAmid(n, () => taint(ca, "immediately", id));
}

test("a root that is withdrawn while an answer is made: the leaf leads to a root of its answer, and then to another", async () => {
  const ca = await startSigningCa();
  const usual = await issueLeaf(ca);
  await withdrawAmid(ca, 1);
  ca.pass(refresh);
  const amid = await issueLeaf(ca);
  expect(amid.roots.filter((root) => amid.leaf.verify(root.publicKey))).toHaveLength(1);
  ca.pass(15 * refresh);
  const { leaf, roots } = await issueLeaf(ca);
  const [former] = usual.roots.filter((root) => usual.leaf.verify(root.publicKey));
  expect(roots.filter((root) => leaf.verify(root.publicKey))).toHaveLength(1);
  expect(roots.map((root) => root.fingerprint256)).not.toContain(former?.fingerprint256);
});

test("a certificate that is revoked while the CRLs are read is in the next ones, under another tag", async () => {
  const ca = await startSigningCa({ CRL: "on" });
  const get = (headers = {}) => ca.app.request("/crl.pem", { headers });
  await get();
  ca.pass(refresh);
  ca.store.changeAmid(1, () => revokeCertificates(ca, ["0a0b"], ca.now()));
  const amid = await get();
  const etag = amid.headers.get("etag") ?? "";
  expect(await amid.text()).not.toBe("");
  ca.pass(refresh);
  const next = await get({ "if-none-match": etag });
  expect(next.status).toBe(200);
  const lists = (await next.text()).split(/(?<=-----END X509 CRL-----\n)/);
  expect(lists.flatMap((each) => readCrl(each).entries.map(([serial]) => serial))).toContain(
    "0a0b",
  );
});

test("a root that is withdrawn within any read of a long poll is in no bundle that the poll gets", async () => {
  const polling = [1, 2].map(async (n) => {
    // A long poll looks again as time goes on.
    const ca = await startCa({}, { clock: () => new Date() });
    await ca.found();
    const before = await publishedBundle(ca);
    const etag = (await ca.app.request("/bundle.json")).headers.get("etag") ?? "";
    await withdrawAmid(ca, n);
    const headers = { "if-none-match": etag, prefer: "wait=30" };
    const response = await ca.app.request("/bundle.json", { headers });
    expect(response.status).toBe(200);
    const { spiffe_sequence } = (await response.json()) as { spiffe_sequence: number };
    expect(spiffe_sequence).toBeGreaterThan(before?.sequence ?? 0);
    const after = await publishedBundle(ca);
    expect(after?.roots.filter((root) => before?.roots.includes(root))).toHaveLength(1);
  });
  await Promise.all(polling);
});

test("a key for tokens that is tainted while a token is made signs no later one, and is published no more", async () => {
  const key = await createTokenKey("ES256", "k1");
  const { cluster } = issuerTables;
  const ca = await startSigningCa({
    JWT_ISSUER: "https://id.test",
    ISSUERS: [{ ...cluster, jwks: jwksOf(key), jwt_audiences: ["*"] }],
  });
  await ca.rotate();
  ca.pass(27 * 3600);
  await ca.rotate();
  ca.pass(27 * 3600);
  const form = async () => ({
    grant_type: "urn:ietf:params:oauth:grant-type:token-exchange",
    subject_token: await mintAccountToken(key, cluster.issuer, "foo:bar", ca.now()),
    subject_token_type: "urn:ietf:params:oauth:token-type:jwt",
    audience: "a",
  });
  const kidOfToken = async (): Promise<string> => {
    const body = new URLSearchParams(await form());
    const answer = (await (await ca.app.request("/token", { method: "POST", body })).json()) as {
      access_token: string;
    };
    return decodeProtectedHeader(answer.access_token).kid ?? "";
  };
  const published = async (): Promise<readonly unknown[]> => {
    const response = await ca.app.request("/.well-known/jwks.json");
    return ((await response.json()) as { keys: { kid: string }[] }).keys.map(({ kid }) => kid);
  };
  const { tokenKeys } = await openStore(ca.mint);
  const id = TokenKey.signingAt(tokenKeys, "ES256", ca.now())?.id ?? "";
  ca.store.changeAmid(1, async () => {
    await Mint.recordTaint(ca.mint, { id, taintedAt: ca.now(), retiresAt: ca.now() });
  });
  expect([id, ...(await published())]).toContain(await kidOfToken());
  ca.pass(refresh);
  const next = await kidOfToken();
  expect(next).not.toBe(id);
  expect(await published()).toContain(next);
  expect(await published()).not.toContain(id);
});
