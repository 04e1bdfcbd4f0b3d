import { beforeAll, expect, test } from "vitest";
import { mintAccountToken } from "../../testkit/callers/tokens.ts";
import {
  createWorkload,
  type Workload,
  withBrokenSignature,
} from "../../testkit/callers/workload.ts";
import { refusalIn } from "../../testkit/refusal.ts";
import {
  bearer,
  type CertificateCall,
  callWithClient,
  outcomeOf,
  protocols,
  requestOf,
} from "../rpc-calls.ts";
import { issuers, maximumSeconds, type ServiceUnderTest } from "../service-under-test.ts";

/** A refused call, and everything that its caller may learn of the refusal. */
interface RefusedCall {
  readonly name: string;
  readonly headers?: () => Promise<Record<string, string>>;
  readonly call?: (workload: Workload) => CertificateCall;
  readonly code: string;
  readonly message: string;
  /** Of the audit line, with its check: codes are shared. */
  readonly reason: string;
}

/** Refusals have the same code and the same message over each protocol. */
export function describeRefusedRequests(service: () => ServiceUnderTest): void {
  let workload: Workload;

  beforeAll(async () => {
    workload = await createWorkload();
  });

  const unauthenticated = { code: "Unauthenticated", message: "request authentication failed" };
  const denied = { code: "PermissionDenied", message: "caller may not request this identity" };
  const csrRejected = {
    code: "InvalidArgument",
    message: "certificate signing request rejected",
    reason: "csr-malformed",
  };
  const tooLong = {
    code: "InvalidArgument",
    message: `validity must not exceed ${maximumSeconds}s`,
    reason: "lifetime-too-long",
  };
  const unavailable = {
    code: "Unavailable",
    message: "certificate authority is temporarily unavailable",
    reason: "key-provider-unreachable",
  };

  const withClaims = (changes: Record<string, unknown>) => async () => {
    const { key, now } = service();
    const token = await mintAccountToken(key, issuers.cluster, "foo:bar", now(), changes);
    return { authorization: `Bearer ${token}` };
  };
  const withHeaders = (headers: Record<string, string>) => async () => ({
    ...(await bearer(service())),
    ...headers,
  });
  const asNodeProxy = () => bearer(service(), "istio-system:ztunnel");
  const asTeamProxy = () => bearer(service(), "team-mesh:ztunnel", issuers.team);
  const impersonating =
    (ImpersonatedIdentity: string) =>
    ({ csrPem }: Workload) => ({
      csr: csrPem,
      metadata: { ImpersonatedIdentity },
    });
  const withCsr =
    (change: (csrPem: string) => string) =>
    ({ csrPem }: Workload) => ({
      csr: change(csrPem),
    });
  const lasting =
    (validityDuration: bigint) =>
    ({ csrPem }: Workload) => ({
      csr: csrPem,
      validityDuration,
    });

  const credentials: readonly Omit<RefusedCall, "code" | "message">[] = [
    { name: "without a credential", reason: "credential-missing", headers: async () => ({}) },
    {
      name: "with a malformed token",
      reason: "credential-rejected form",
      headers: async () => ({ authorization: "Bearer x" }),
    },
    {
      name: "with a token of another issuer",
      reason: "credential-rejected issuer",
      headers: withClaims({ iss: "https://evil.test" }),
    },
    {
      name: "with an expired token",
      reason: "credential-rejected time",
      headers: withClaims({ exp: 1_000_000_000 }),
    },
    {
      name: "that claims another cluster",
      reason: "credential-rejected cluster",
      headers: withHeaders({ clusterid: "team" }),
    },
    {
      name: "from a namespace its issuer may not vouch for",
      reason: "credential-rejected namespace",
      headers: () => bearer(service(), "foo:bar", issuers.team),
    },
  ];

  const calls: readonly RefusedCall[] = [
    ...credentials.map((call) => ({ ...call, ...unauthenticated })),
    {
      name: "of a workload that names another's identity",
      reason: "impersonation-denied account",
      call: impersonating("spiffe://cluster.local/ns/foo/sa/other"),
      ...denied,
    },
    {
      name: "of a workload that names its own identity",
      reason: "impersonation-denied account",
      call: impersonating("spiffe://cluster.local/ns/foo/sa/bar"),
      ...denied,
    },
    ...[
      ["a foreign trust domain", "spiffe://other.local/ns/foo/sa/bar", "trust-domain"],
      [
        "two identities with a comma",
        "spiffe://cluster.local/ns/a/sa/b,spiffe://cluster.local/ns/c/sa/d",
      ],
    ].map(([name, id = "", rule = "identity"]) => ({
      name: `of a node proxy that names ${name}`,
      headers: asNodeProxy,
      call: impersonating(id),
      ...denied,
      reason: `impersonation-denied ${rule}`,
    })),
    {
      name: "of a node proxy that names an identity of a namespace beyond its issuer",
      reason: "impersonation-denied namespace",
      headers: asTeamProxy,
      call: impersonating("spiffe://cluster.local/ns/foo/sa/bar"),
      ...denied,
    },
    {
      name: "of another issuer's account with the name of a node proxy",
      reason: "impersonation-denied account",
      headers: () => bearer(service(), "team-x:ztunnel", issuers.team),
      call: impersonating("spiffe://cluster.local/ns/team-a/sa/web"),
      ...denied,
    },
    {
      name: "for a signer by name",
      call: ({ csrPem }) => ({ csr: csrPem, metadata: { CertSigner: "example.com/foo" } }),
      code: "InvalidArgument",
      message: "no such signer",
      reason: "signer-unknown",
    },
    { name: "without a CSR", call: () => ({}), ...csrRejected },
    { name: "with a malformed CSR", call: () => ({ csr: "junk" }), ...csrRejected },
    {
      name: "with a CSR whose signature is broken",
      call: withCsr(withBrokenSignature),
      ...csrRejected,
      reason: "csr-signature-invalid",
    },
    { name: "for one second too long", call: lasting(BigInt(maximumSeconds) + 1n), ...tooLong },
    { name: "for ever", call: lasting(2n ** 63n - 1n), ...tooLong },
    {
      name: "with a token of an issuer whose keys are unavailable",
      headers: () => bearer(service(), "foo:bar", issuers.down),
      ...unavailable,
    },
  ];

  test.each(calls)("refuses a call $name, over every protocol", async (refused) => {
    const headers = await (refused.headers ?? (() => bearer(service())))();
    const call = refused.call?.(workload) ?? { csr: workload.csrPem };
    const { code, message, reason } = refused;
    service().takeAudits();
    for (const protocol of protocols) {
      expect(await callWithClient(protocol, service(), call, headers)).toEqual({ code, message });
      const response = await service().send(requestOf(protocol, call, headers));
      expect(await outcomeOf(protocol, response)).toEqual({ code, message });
      expect(service().takeAudits().map(refusalIn)).toEqual([reason, reason]);
    }
  });

  test.each([
    ["does not wait longer for an issuer than the caller does", issuers.hanging, 300],
    ["does not wait for an issuer when the caller does not wait", issuers.stalled, 0],
  ])("%s, over every protocol", async (_, issuer, milliseconds) => {
    const credential = await bearer(service(), "foo:bar", issuer);
    const answers = protocols.map(async (protocol) => {
      const headers = { ...credential, [protocol.timeoutHeader]: protocol.timeout(milliseconds) };
      const request = requestOf(protocol, { csr: workload.csrPem }, headers);
      return outcomeOf(protocol, await service().send(request));
    });
    // A service that waited until it gave the issuer up would answer Unavailable.
    const deadlineExceeded = expect.objectContaining({ code: "DeadlineExceeded" });
    expect(await Promise.all(answers)).toEqual(protocols.map(() => deadlineExceeded));
  });
}
