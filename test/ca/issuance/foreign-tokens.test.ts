import { describe, expect, test } from "vitest";
import type { AuditEvent } from "../../../src/ca/issuance/audit-event.ts";
import type { UseToken } from "../../../src/ca/issuance/issue-certificate.ts";
import {
  type CertificateRequest,
  issueCertificate,
} from "../../../src/ca/issuance/issue-certificate.ts";
import { LogEntry } from "../../../src/ca/issuance/log-entry.ts";
import type { Bytes } from "../../../src/pki/encoding/bytes.ts";
import { demandedLog, startCa } from "../../testkit/ca/running-ca.ts";
import { claimsOf, platformClaims } from "../../testkit/callers/foreign-tokens.ts";
import {
  type Claims,
  createTokenKey,
  jwksOf,
  mintAccountToken,
  mintToken,
} from "../../testkit/callers/tokens.ts";
import { buildCsr, csrPem, generateSigner } from "../../testkit/pki/csr.ts";
import { refusalOf } from "../../testkit/refusal.ts";

const key = await createTokenKey("RS256", "k1");
const clusterKey = await createTokenKey("ES256", "k1");
const csr = csrPem(buildCsr(generateSigner("EC-P256")));
const { iss } = platformClaims.github;

const deploy = {
  name: "deploy",
  claims: { repository_owner_id: "7", repository_id: "74", environment: "prod" },
  namespace: "ci",
  account: "repo-{repository_id}",
};
const github = {
  issuer: iss,
  audiences: ["https://ca.test"],
  cluster: "github",
  namespaces: ["ci"],
  jwks: jwksOf(key),
  subjects: [deploy],
};
const cluster = {
  issuer: "https://cluster.test",
  namespaces: ["shop", "istio-system"],
  jwks: jwksOf(clusterKey),
};

/** Remembers tokens as a store does. */
function memory(): UseToken {
  const used = new Set<string>();
  return async ({ digest }) => !used.has(digest) && used.add(digest) !== undefined;
}

async function startWith(table: object, values: object = {}, useToken?: UseToken) {
  const entries: Bytes[] = [];
  const append = async (entry: Bytes) => ({ origin: "log", index: entries.push(entry) - 1 });
  const issuanceLog = demandedLog(append);
  const given = { ISSUERS: [cluster, { ...github, ...table }], ...values };
  const ca = await startCa(given, { issuanceLog, ...(useToken && { useToken }) });
  await ca.rotate();
  const claims = claimsOf("github", ca.now());
  const tokenOf = (changes: Claims = {}) => mintToken(key, { ...claims, ...changes });
  const audit: AuditEvent = { event: "create-certificate", outcome: "refused", requestId: "1" };
  const callerOf = (token: string, headers: Record<string, string> = {}) =>
    ca.certificateAuthority.authenticate(
      { headers: new Headers({ authorization: `Bearer ${token}`, ...headers }) },
      ca.now(),
    );
  const request = async (token: string, changes: Partial<CertificateRequest> = {}) =>
    issueCertificate(
      ca.certificateAuthority.issuance,
      await callerOf(token),
      { csrPem: csr, requestedSeconds: 0n, impersonatedIdentity: "", certSigner: "", ...changes },
      { now: ca.now(), signal: new AbortController().signal, audit },
    );
  const logged = () =>
    entries.map((each) => LogEntry.parse(each)).filter((each) => each.proof === "token");
  return { ca, tokenOf, callerOf, request, audit, logged, entries };
}

const rejected = (check: string) => ({ reason: "credential-rejected", check });

describe("a token that is no ServiceAccount's", () => {
  test("is no node proxy, gateway or signer", async () => {
    const { request, tokenOf, callerOf } = await startWith({});
    const token = await tokenOf();
    const other = "spiffe://cluster.local/ns/ci/sa/repo-75";
    expect(await refusalOf(() => request(token, { impersonatedIdentity: other }))).toEqual({
      reason: "impersonation-denied",
      rule: "account",
    });
    const serving = { certSigner: "serving", dnsNames: ["a.test"] };
    expect(await refusalOf(() => request(token, serving))).toEqual({ reason: "signer-unknown" });
    expect(await refusalOf(() => request(token, { certSigner: "intermediate" }))).toEqual({
      reason: "signer-denied",
    });
    const forwards = { "x-rampart-forwards": "certificate", "x-forwarded-client-cert": "URI=a" };
    expect(await refusalOf(() => callerOf(token, forwards))).toEqual(rejected("gateway"));
  });

  test("is not for a ServiceAccount's issuer, nor the other way round", async () => {
    const { ca, callerOf } = await startWith({});
    const account = await mintAccountToken(key, iss, "ci:repo-74", ca.now(), {
      aud: "https://ca.test",
    });
    expect(await refusalOf(() => callerOf(account))).toEqual(rejected("subject"));
    const claims = { ...claimsOf("github", ca.now()), iss: cluster.issuer, aud: "istio-ca" };
    const token = await mintToken(clusterKey, claims);
    expect(await refusalOf(() => callerOf(token))).toEqual(rejected("subject"));
  });
});

describe("what is known of a token's claims", () => {
  const recorded = { recorded_claims: ["repository_id", "ref"] };
  const tokenSubject = {
    sub: platformClaims.github.sub,
    entry: "deploy",
    claims: { repository_id: "74", ref: "refs/heads/main" },
  };
  const denied = (subject: string) => ({ DENIED: [{ subject, since: "2026-11-21T00:00:00Z" }] });

  test("stands in the entry of the log, with the issuer", async () => {
    const { request, tokenOf, logged } = await startWith(recorded);
    await request(await tokenOf());
    expect(logged()).toMatchObject([
      { issuer: iss, cluster: "github", tokenId: "example-id", tokenSubject },
    ]);
  });

  test.each([
    `issuer/${iss}`,
    "claim/repository_id=74",
    "claim/ref=refs/heads/*",
    "subject/repo:octo-org@7/*",
  ])("is enough for a denial of %s", async (subject) => {
    const { request, tokenOf } = await startWith(recorded, denied(subject));
    expect(await refusalOf(async () => request(await tokenOf()))).toEqual({
      reason: "denied",
      subject,
    });
  });

  test.each(["claim/groups=evil", "claim/groups=e*"])(
    "denies %s by one element of a list",
    async (subject) => {
      const { request, tokenOf } = await startWith(
        { recorded_claims: ["groups"] },
        denied(subject),
      );
      await request(await tokenOf({ groups: ["good", "god"] }));
      const token = await tokenOf({ groups: ["good", "evil"] });
      expect(await refusalOf(() => request(token))).toEqual({ reason: "denied", subject });
    },
  );

  test.each(["claim/repository_id=7", "claim/ref=main", "subject/repo:octo-org"])(
    "is not %s",
    async (subject) => {
      const { request, tokenOf, audit } = await startWith(recorded, denied(subject));
      await request(await tokenOf());
      expect(audit.outcome).toBe("issued");
    },
  );

  test("is denied by a rule for one element of a list", async () => {
    const rule = { name: "no", when: { claims: { groups: "evil" } }, then: { deny: "no" } };
    const table = { recorded_claims: ["groups"] };
    const { request, tokenOf } = await startWith(table, { POLICY: { rules: [rule] } });
    await request(await tokenOf({ groups: ["good"] }));
    const token = await tokenOf({ groups: ["good", "evil"] });
    expect(await refusalOf(() => request(token))).toEqual({ reason: "policy-denied", rule: "no" });
  });

  test("stands in the log with AWS's names", async () => {
    const { iss, sub } = platformClaims.aws;
    const claims = { sub, "https://sts.amazonaws.com/": { aws_account: "111122223333" } };
    const subjects = [{ ...deploy, claims, account: "build" }];
    const { ca, request, logged } = await startWith({ issuer: iss, subjects });
    await request(await mintToken(key, claimsOf("aws", ca.now())));
    expect(logged()).toMatchObject([
      { tokenSubject: { claims: { "'https://sts.amazonaws.com/'.aws_account": "111122223333" } } },
    ]);
  });
});

describe("a certificate behind which such a token is", () => {
  const renewing = { recorded_claims: ["ref"], renewal_limit: "2h" };

  /** As the CA finds it behind a certificate, an hour after the token. */
  async function renewWith(values: object) {
    const { ca, callerOf, tokenOf, audit, entries } = await startWith(renewing, values);
    const { tokenSubject: _, issuer: provedBy, ...caller } = await callerOf(await tokenOf());
    const certificate = { serialNumber: "01", authority: "02" };
    const provedUntil = new Date(caller.proof.provedAt.getTime() + 2 * 3600 * 1000);
    await issueCertificate(
      ca.certificateAuthority.issuance,
      { ...caller, certificate, provedBy, provedUntil },
      { csrPem: csr, requestedSeconds: 0n, impersonatedIdentity: "", certSigner: "" },
      { now: ca.now(), signal: new AbortController().signal, audit },
    );
    return { audit, entry: entries.map((each) => LogEntry.parse(each)).at(-1), provedUntil };
  }
  const deniedSince = (since: string) => ({ DENIED: [{ subject: "claim/ref=other", since }] });

  test("is renewed no further than its table allows, and its entry says that the claims are unknown", async () => {
    const { audit, entry, provedUntil } = await renewWith({});
    expect(audit.notAfter).toEqual(provedUntil);
    expect(entry).toMatchObject({ proof: "certificate", issuer: iss, tokenSubject: "unknown" });
  });

  test("is denied while a claim is, unless its token is younger", async () => {
    const later = () => renewWith(deniedSince("2026-11-21T12:00:00Z"));
    expect(await refusalOf(later)).toEqual({ reason: "denied", subject: "claim/ref=other" });
    expect((await renewWith(deniedSince("2026-11-20T00:00:00Z"))).audit.outcome).toBe("issued");
  });

  test("is denied by a rule that denies by claims", async () => {
    const rule = { name: "no", when: { claims: { ref: "other" } }, then: { deny: "no" } };
    const asked = () => renewWith({ POLICY: { rules: [rule] } });
    expect(await refusalOf(asked)).toEqual({ reason: "policy-denied", rule: "no" });
  });

  test("is no credential by default", async () => {
    const { ca } = await startWith({});
    const [, issuer] = ca.issuers;
    expect([issuer?.name, issuer?.renewalSeconds]).toEqual([iss, 0]);
  });
});

describe("a token that is good once", () => {
  const once = { subjects: [{ ...deploy, once: true }] };

  test("is not used up by a call that is refused for another reason", async () => {
    const { request, tokenOf } = await startWith(once, {}, memory());
    const token = await tokenOf();
    await refusalOf(() => request(token, { csrPem: "no CSR" }));
    await request(token);
  });

  test("is the same with another signature", async () => {
    const elliptic = await createTokenKey("ES256", "k1");
    const table = { ...once, jwks: jwksOf(elliptic) };
    const { ca, request } = await startWith(table, {}, memory());
    const claims = claimsOf("github", ca.now());
    await request(await mintToken(elliptic, claims));
    const again = await mintToken(elliptic, claims);
    expect(await refusalOf(() => request(again))).toEqual(rejected("replay"));
  });

  test("is refused at the start by a platform that cannot tell", async () => {
    await expect(startWith(once)).rejects.toThrow(
      "ISSUERS[1].subjects[0].once: takes `rampart serve` with a store in files",
    );
  });
});
