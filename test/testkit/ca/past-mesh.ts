import fc from "fast-check";
import type { Caller } from "../../../src/authn/caller.ts";
import type { AuditEvent } from "../../../src/ca/issuance/audit-event.ts";
import {
  type CertificateRequest,
  issueCertificate,
} from "../../../src/ca/issuance/issue-certificate.ts";
import { issueToken, type TokenRequest } from "../../../src/ca/issuance/issue-token.ts";
import { LogEntry } from "../../../src/ca/issuance/log-entry.ts";
import { recordingIn } from "../../../src/ca/issuance/record-issuance.ts";
import { loggedEntry } from "../../../src/cli/verbs/log/entry.ts";
import { FollowerIndex } from "../../../src/cli/verbs/log/follower-index.ts";
import { addRequest } from "../../../src/cli/verbs/log/logged-requests.ts";
import { CaError } from "../../../src/foundation/errors.ts";
import { trustDomain } from "../../contract/node-checks.ts";
import { tokenIssuerWithoutKeys } from "../callers/token-issuers.ts";
import { createWorkload, p256, rsa2048 } from "../callers/workload.ts";
import { demandedLog, startCa } from "./running-ca.ts";

const issuer = "https://a.test";
const isOf = (name: string) => (account: { readonly name: string }) => account.name === name;
const alpha = tokenIssuerWithoutKeys(issuer, {
  mayAddress: (audience) => audience !== "gcp",
  cluster: "alpha",
  isNodeAccount: isOf("ztunnel"),
  clusterSigner: (account) =>
    account.name === "signer" ? { maySignFor: () => true, mayName: () => true } : undefined,
  gatewayNames: (account) => (account.name === "gateway" ? ["edge.test"] : undefined),
  intermediateRights: (account) =>
    account.name === "cart"
      ? { trustDomain: "below.test" as never, pathLength: 0, isConstrained: false }
      : undefined,
});
const beta = tokenIssuerWithoutKeys("https://b.test", { cluster: "beta" });

const named = (namespace: string, name: string) => ({
  account: { namespace, name },
  spiffeId: `spiffe://${trustDomain}/ns/${namespace}/sa/${name}` as Caller["spiffeId"],
});

const provedAt = fc.constantFrom(
  ...["2026-10-28", "2026-11-10", "2026-11-21"].map((day) => new Date(day)),
);
const proofOf = (at: Date) => ({ provedAt: at, issuer: alpha.digest, isImpersonated: false });
const now = new Date("2026-11-28T12:00:00Z");

const node = fc.constantFrom("node-7", "node-8", "other");
const workload = fc.constantFrom(named("shop", "cart"), named("edge", "web"), named("pay", "till"));

const byToken = fc
  .record({ who: workload, issuer: fc.constantFrom(alpha, beta), name: node })
  .map(({ who, issuer, name }): Caller => {
    return { ...who, issuer, node: { name }, tokenId: "jti", proof: proofOf(now) };
  });
const certificate = { serialNumber: "01ab", authority: "00" };
const byCertificate = fc
  .record({ who: workload, at: provedAt })
  .map(({ who, at }): Caller => ({ ...who, certificate, provedBy: alpha, proof: proofOf(at) }));
const ofIstiod = workload.map((who): Caller => {
  const proof = proofOf(new Date("2026-11-21"));
  return { ...who, certificate, provedBy: alpha, mayBeProvedBy: [alpha, beta], proof };
});
const gateway: Caller = { ...named("edge", "gateway"), issuer: alpha, proof: proofOf(now) };
const forwarded = byCertificate.map((caller): Caller => ({ ...caller, gateway }));
const byName = workload.map(
  (who): Caller => ({ ...who, gateway, provedBy: alpha, proof: proofOf(now) }),
);

const asker = (name: string) =>
  node.map((on): Caller => {
    const who = named("istio-system", name);
    return { ...who, issuer: alpha, node: { name: on }, proof: proofOf(now) };
  });

/** A token is asked for where audiences are. */
type Metadata = Partial<Omit<CertificateRequest, "csrPem" | "requestedSeconds">> &
  Partial<Pick<TokenRequest, "audiences">>;
type Asking = readonly [Caller, Metadata];

const own: Metadata = {};
const pod = { PodName: "a-0", PodUid: "a-uid" };
const audiences = fc.subarray(["vault-a", "vault-b", "sts.amazonaws.com", "gcp"], { minLength: 1 });
const askings: fc.Arbitrary<Asking> = fc.oneof(
  fc.tuple(fc.oneof(byToken, byCertificate, ofIstiod, forwarded, byName), fc.record({ audiences })),
  fc.tuple(
    fc.oneof(asker("ztunnel"), asker("signer")),
    fc
      .record({ audiences, who: workload })
      .map(({ who, ...others }): Metadata => ({ impersonatedIdentity: who.spiffeId, ...others })),
  ),
  fc.tuple(
    fc.oneof(byToken, byCertificate, ofIstiod, forwarded, byName),
    fc.constantFrom(own, own, { certSigner: "team-a" }),
  ),
  fc.tuple(byToken, fc.constant({ certSigner: "intermediate" })),
  fc.constant<Asking>([gateway, { certSigner: "serving" }]),
  fc.tuple(
    asker("ztunnel"),
    workload.map(({ spiffeId }): Metadata => ({ impersonatedIdentity: spiffeId })),
  ),
  fc.tuple(
    asker("signer"),
    fc.record({ who: workload, name: node, isNamed: fc.boolean() }).map(
      ({ who, name, isNamed }): Metadata => ({
        impersonatedIdentity: who.spiffeId,
        metadata: isNamed ? { ...pod, NodeName: name } : {},
      }),
    ),
  ),
  fc.tuple(
    asker("signer"),
    fc.boolean().map(
      (isNamed): Metadata => ({
        certSigner: "serving",
        dnsNames: ["cart.shop.svc"],
        metadata: isNamed ? { ...pod, NodeName: "node-7", Requester: "shop/cart" } : {},
      }),
    ),
  ),
);

/** Requests of all kinds: who asks, for what, for how long, with which key. */
export const historyOf = (length: number) =>
  fc.array(
    fc.record({
      asking: askings,
      seconds: fc.constantFrom(0, 0, 1800, 3600, 40_000, 86_400),
      isRsa: fc.boolean(),
    }),
    { minLength: length, maxLength: length },
  );

type Requests = ReturnType<typeof historyOf> extends fc.Arbitrary<infer T> ? T : never;

const callers = [issuer, "https://b.test"].map((each) => {
  return { issuer: each, namespaces: ["*"], accounts: ["*"] };
});
const csrs = Promise.all([createWorkload(p256), createWorkload(rsa2048)]);

/** What a CA with these rules did with the requests: its audit events, and the copy of its log. */
export async function livedThrough(requests: Requests, rules: readonly object[]) {
  const [ec, rsa] = await csrs;
  const entries: Uint8Array[] = [];
  const ca = await startCa({
    MAX_WORKLOAD_CERT_TTL: "24h",
    DEFAULT_WORKLOAD_CERT_TTL: "12h",
    SIGNERS: [{ name: "team-a", inception_date: "2026-11-21", callers }],
    JWT_ISSUER: "https://ca.test",
    ISSUERS: [{ issuer }, { issuer: "https://b.test", cluster: "beta" }],
    POLICY: { rules },
  });
  await ca.found();
  await ca.rotate();
  ca.pass(7 * 86_400);
  await ca.rotate();
  const index = new FollowerIndex();
  const issuance = {
    ...ca.certificateAuthority.issuance,
    issuanceLog: recordingIn(
      demandedLog(async (entry) => {
        const parsed = LogEntry.parse(entry);
        addRequest(index, entries.length, parsed, loggedEntry(parsed));
        return { origin: "log", index: entries.push(entry) - 1 };
      }),
    ),
  };
  const audits: AuditEvent[] = [];
  for (const { asking, seconds, isRsa } of requests) {
    const [caller, { audiences, ...metadata }] = asking;
    const audit: AuditEvent = { event: "create-certificate", outcome: "refused", requestId: "1" };
    const request = {
      csrPem: isRsa ? rsa.csrPem : ec.csrPem,
      requestedSeconds: BigInt(seconds),
      impersonatedIdentity: "",
      certSigner: "",
      ...metadata,
    };
    const context = { now: ca.now(), signal: new AbortController().signal, audit };
    const spiffeId = request.impersonatedIdentity;
    const answer: Promise<unknown> = audiences
      ? issueToken(issuance, caller, { ...request, audiences, spiffeId }, context)
      : issueCertificate(issuance, caller, request, context);
    await answer.catch((error: unknown) => {
      if (!(error instanceof CaError)) throw error;
      audit.reason = error.refusal.reason;
      audit.detail = error.message;
    });
    audits.push(JSON.parse(JSON.stringify(audit)));
  }
  return { audits, index };
}
