import { expect, test } from "vitest";
import type { Caller } from "../../../src/authn/caller.ts";
import type { AuditEvent } from "../../../src/ca/issuance/audit-event.ts";
import type { UseToken } from "../../../src/ca/issuance/issue-certificate.ts";
import { issueCertificate } from "../../../src/ca/issuance/issue-certificate.ts";
import { issueToken } from "../../../src/ca/issuance/issue-token.ts";
import { addSeconds } from "../../../src/pki/x509/validity.ts";
import { startCa } from "../../testkit/ca/running-ca.ts";
import { createTokenKey, jwksOf, mintAccountToken } from "../../testkit/callers/tokens.ts";
import { createWorkload } from "../../testkit/callers/workload.ts";
import { issuer } from "../../testkit/configuration.ts";
import { refusalOf } from "../../testkit/refusal.ts";

const { csrPem } = await createWorkload();
const key = await createTokenKey("ES256", "k1");
const ISSUERS = [{ issuer, jwks: jwksOf(key), jwt_audiences: ["a"] }];
const ca = await startCa({ ISSUERS, JWT_ISSUER: "https://ca.test" });
await ca.found();
await ca.rotate();
const { authenticate, issuance } = ca.certificateAuthority;
const authorization = `Bearer ${await mintAccountToken(key, issuer, "foo:bar", ca.now())}`;
const caller = await authenticate({ headers: new Headers({ authorization }) }, ca.now());

/** The caller, whose token is good for one use. */
const once: Caller = { ...caller, singleUse: { digest: "ab", until: addSeconds(ca.now(), 60) } };

type Ask = (useToken: UseToken | undefined, signal?: AbortSignal) => Promise<unknown>;

const contextOf = (signal: AbortSignal) => {
  const audit: AuditEvent = { event: "create-token", outcome: "refused", requestId: "1" };
  return { now: ca.now(), signal, audit };
};

const certificate: Ask = (useToken, signal = new AbortController().signal) =>
  issueCertificate(
    { ...issuance, useToken },
    once,
    { csrPem, requestedSeconds: 0n, impersonatedIdentity: "", certSigner: "" },
    contextOf(signal),
  );
const token: Ask = (useToken, signal = new AbortController().signal) =>
  issueToken(
    { ...issuance, useToken },
    once,
    { audiences: ["a"], requestedSeconds: 0n, spiffeId: "" },
    contextOf(signal),
  );

test.each<[string, Ask]>([
  ["certificate", certificate],
  ["token", token],
])("a token that is good once, for a %s", async (_, ask) => {
  let uses = 0;
  const useToken: UseToken = async () => ++uses === 1;
  expect(await refusalOf(() => ask(undefined))).toEqual({ reason: "store-unreachable" });
  // A caller that has gone leaves its token to the next call.
  expect(await refusalOf(() => ask(useToken, AbortSignal.abort()))).toEqual({
    reason: "request-abandoned",
  });
  expect(uses).toBe(0);
  await ask(useToken);
  expect(await refusalOf(() => ask(useToken))).toEqual({
    reason: "credential-rejected",
    check: "replay",
  });
});
