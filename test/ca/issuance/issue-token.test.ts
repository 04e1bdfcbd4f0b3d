import { decodeJwt, decodeProtectedHeader } from "jose";
import { expect, test } from "vitest";
import type { Caller } from "../../../src/authn/caller.ts";
import type { AuditEvent } from "../../../src/ca/issuance/audit-event.ts";
import { issueToken, type TokenRequest } from "../../../src/ca/issuance/issue-token.ts";
import { LogEntry } from "../../../src/ca/issuance/log-entry.ts";
import { Mint } from "../../../src/ca/mint.ts";
import { Rotation } from "../../../src/ca/rotation/rotate.ts";
import type { Bytes } from "../../../src/pki/encoding/bytes.ts";
import { addSeconds } from "../../../src/pki/x509/validity.ts";
import { issuerTables } from "../../contract/service-under-test.ts";
import { demandedLog, startCa } from "../../testkit/ca/running-ca.ts";
import { taintKeyOf } from "../../testkit/ca/tainted-ca.ts";
import { createTokenKey, jwksOf, mintAccountToken } from "../../testkit/callers/tokens.ts";

const aws = "sts.amazonaws.com";
const issuer = { ...issuerTables.cluster, jwt_audiences: [aws] };

/** A CA with a log, its entries, and the caller of a ServiceAccount's token. */
async function startIssuing(values: object = {}, account = "foo:bar") {
  const key = await createTokenKey("ES256", "k1");
  const entries: Bytes[] = [];
  const append = async (entry: Bytes) => ({ origin: "log", index: entries.push(entry) });
  const ISSUERS = [{ ...issuer, jwks: jwksOf(key) }];
  const given = { ISSUERS, JWT_ISSUER: "https://ca.test", ...values };
  const ca = await startCa(given, { issuanceLog: demandedLog(append) });
  await ca.rotate();
  const { authenticate, issuance } = ca.certificateAuthority;
  const token = await mintAccountToken(key, issuer.issuer, account, ca.now());
  const headers = new Headers({ authorization: `Bearer ${token}` });
  const caller = await authenticate({ headers }, ca.now());
  const audits: AuditEvent[] = [];
  const ask = (
    change: Partial<Caller> = {},
    request: Partial<TokenRequest> = {},
    signal = new AbortController().signal,
  ) => {
    const audit: AuditEvent = { event: "create-token", outcome: "refused", requestId: "1" };
    audits.push(audit);
    return issueToken(
      issuance,
      { ...caller, ...change },
      { audiences: [aws], requestedSeconds: 0n, spiffeId: "", ...request },
      { now: ca.now(), signal, audit },
    );
  };
  return { ca, ask, audits, entries };
}

test("logs who got which token, and never the token", async () => {
  const { ca, ask, entries } = await startIssuing();
  const { token, spiffeId, expiresAt } = await ask({}, { requestedSeconds: 90n });
  const [octets = new Uint8Array()] = entries;
  expect(LogEntry.parse(octets)).toMatchObject({
    kind: "token",
    at: ca.now().toISOString(),
    proof: "token",
    issuer: issuer.issuer,
    requestedSeconds: 90,
    token: {
      spiffeId,
      audiences: [aws],
      expiresAt: expiresAt.toISOString(),
      jti: decodeJwt(token).jti,
      key: decodeProtectedHeader(token).kid,
      algorithm: "ES256",
    },
  });
  const [, payload = "", signature = ""] = token.split(".");
  for (const secret of [payload, signature]) {
    expect(Buffer.from(octets).toString()).not.toContain(secret.slice(0, 30));
  }
});

test("a life of less than a second is the default one, in the token and in its entry", async () => {
  for (const requestedSeconds of [-1n, -(2n ** 63n), 0n]) {
    const { ca, ask, entries } = await startIssuing();
    const { expiresAt } = await ask({}, { requestedSeconds });
    expect(expiresAt.getTime() - ca.now().getTime()).toBeGreaterThan(299_000);
    const [octets = new Uint8Array()] = entries;
    expect(LogEntry.parse(octets)).toMatchObject({ requestedSeconds: 0, grantedSeconds: 300 });
  }
});

test("names the node proxy that asked for a workload's token, in the audit line and in the entry", async () => {
  const { ask, audits, entries } = await startIssuing({}, "istio-system:ztunnel");
  const { spiffeId } = await ask({}, { spiffeId: "spiffe://cluster.local/ns/foo/sa/bar" });
  const impersonator = "spiffe://cluster.local/ns/istio-system/sa/ztunnel";
  expect(audits).toMatchObject([{ outcome: "issued", spiffeId, impersonator }]);
  const [octets = new Uint8Array()] = entries;
  expect(LogEntry.parse(octets)).toMatchObject({ impersonator, token: { spiffeId } });
  await ask({}, { spiffeId: "" });
  expect(audits[1]).not.toHaveProperty("impersonator");
});

test("answers no token that could not be logged", async () => {
  const { ask, entries } = await startIssuing();
  entries.push = () => {
    throw new Error("disk I/O error");
  };
  await expect(ask()).rejects.toMatchObject({ refusal: { reason: "log-unavailable" } });
});

test("signs and logs no token for a caller that has gone", async () => {
  const { ask, entries } = await startIssuing();
  const asking = ask({}, {}, AbortSignal.abort());
  await expect(asking).rejects.toMatchObject({ refusal: { reason: "request-abandoned" } });
  expect(entries).toHaveLength(0);
  await ask();
  expect(entries).toHaveLength(1);
});

test("a caller with a certificate gets a token that ends with the caller's last proof", async () => {
  const { ca, ask } = await startIssuing();
  const provedUntil = addSeconds(ca.now(), 42.5);
  const [provedBy] = ca.issuers;
  expect(provedBy?.name).toBe(issuer.issuer);
  const { expiresAt } = await ask({ provedUntil, provedBy, issuer: undefined });
  expect(expiresAt.getTime()).toBeLessThanOrEqual(provedUntil.getTime());
  expect(expiresAt.getTime()).toBeGreaterThan(provedUntil.getTime() - 1000);
});

test("the default life of a rule, which certificates may have too, makes no token live longer than MAX_JWT_TTL", async () => {
  const rules = [{ name: "day", then: { default_life: "24h" } }];
  const { ca, ask } = await startIssuing({ POLICY: { rules }, MAX_JWT_TTL: "10m" });
  const { expiresAt } = await ask();
  expect(expiresAt.getTime() - ca.now().getTime()).toBeLessThanOrEqual(600_000);
  const refusal = { reason: "lifetime-too-long", requestedSeconds: 601n, maximumSeconds: 600 };
  await expect(ask({}, { requestedSeconds: 601n })).rejects.toMatchObject({ refusal });
});

test("backdates a token as a leaf, by two minutes or a tenth of a shorter life", async () => {
  const { ca, ask } = await startIssuing();
  const now = Math.floor(ca.now().getTime() / 1000);
  for (const [seconds, back] of [
    [3600, 120],
    [300, 30],
  ] as const) {
    const { iat, exp } = decodeJwt((await ask({}, { requestedSeconds: BigInt(seconds) })).token);
    expect([iat, exp]).toEqual([now - back, now + seconds]);
  }
});

test("a rule shortens the life of a token", async () => {
  const rules = [{ name: "short", when: { product: "token" }, then: { maximum_life: "60s" } }];
  const { ca, ask } = await startIssuing({ POLICY: { rules } });
  const { expiresAt } = await ask();
  expect(expiresAt.getTime() - ca.now().getTime()).toBeLessThanOrEqual(60_000);
});

test.each<[string, (value: string) => string]>([
  ["a taint", (value) => value],
  ["a taint that does not open", () => "junk"],
])("a key with %s signs nothing, and is in no document, at once", async (_, spoil) => {
  const { ca, ask } = await startIssuing();
  const kid = decodeProtectedHeader((await ask()).token).kid ?? "";
  const before = await ca.certificateAuthority.issuance.authorities.at(ca.now());
  await Mint.recordTaint(ca.mint, { id: kid, taintedAt: ca.now(), retiresAt: ca.now() });
  const name = taintKeyOf(ca, kid);
  ca.store.records.set(name, spoil(ca.store.records.get(name) ?? ""));
  await ca.certificateAuthority.issuance.authorities.renew(ca.now());
  await expect(ask()).rejects.toMatchObject({ refusal: { reason: "no-signing-authority" } });
  const after = await ca.certificateAuthority.issuance.authorities.at(ca.now());
  expect(after.tokenKeys.map(({ id }) => id)).not.toContain(kid);
  expect(after.sequence).toBeGreaterThan(before.sequence);
});

test("a CA that issues no tokens for a while says until when, and is ready for certificates", async () => {
  const { ca, ask } = await startIssuing();
  const kid = decodeProtectedHeader((await ask()).token).kid ?? "";
  const { authorities } = ca.certificateAuthority.issuance;
  expect((await authorities.at(ca.now())).reasons).toEqual([]);
  await Mint.recordTaint(ca.mint, { id: kid, taintedAt: ca.now(), retiresAt: ca.now() });
  await Rotation.rotate(ca.mint, ca.now());
  await authorities.renew(ca.now());
  const { reasons, issuer } = await authorities.at(ca.now());
  expect(issuer).toBeDefined();
  expect(reasons).toEqual([expect.stringMatching(/^no key signs JWT-SVIDs until 20\d\d-/)]);
  const from = new Date(reasons[0]?.split(" ").at(-1) ?? "");
  expect(from.getTime() - ca.now().getTime()).toBeLessThanOrEqual(26 * 3_600_000);
  ca.pass((from.getTime() - ca.now().getTime()) / 1000);
  await authorities.renew(ca.now());
  expect((await authorities.at(ca.now())).reasons).toEqual([]);
});
