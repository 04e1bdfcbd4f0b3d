import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import {
  createWorkload,
  type Workload,
  withBrokenSignature,
} from "../../testkit/callers/workload.ts";
import type { AuditLine } from "../../testkit/log/event-recorder.ts";
import {
  bearer,
  type CertificateCall,
  connectBinary,
  connectJson,
  grpcFrame,
  grpcWeb,
  octets,
  outcomeOf,
  protocols,
  requestOf,
} from "../rpc-calls.ts";
import { issuers, type PlatformUnderTest, type ServiceUnderTest } from "../service-under-test.ts";

const traceIdForm = /^[0-9a-f]{32}$/;
const spanIdForm = /^[0-9a-f]{16}$/;

/** Every call leaves one audit event: who called, how the call ended, and no secret. */
export function describeAuditTrail(
  service: () => ServiceUnderTest,
  { hasTrailers, peer }: PlatformUnderTest,
): void {
  let workload: Workload;

  beforeAll(async () => {
    workload = await createWorkload();
  });

  beforeEach(() => {
    service().takeAudits();
  });

  function onlyAudit(): AuditLine {
    const audits = service().takeAudits();
    expect(audits).toHaveLength(1);
    return audits[0] as AuditLine;
  }

  async function audited(
    call: CertificateCall | BodyInit,
    headers: Record<string, string>,
    protocol = connectJson,
  ): Promise<AuditLine> {
    const response = await service().send(requestOf(protocol, call, headers));
    await response.arrayBuffer();
    return onlyAudit();
  }

  const own = {
    proof: "token",
    spiffeId: "spiffe://cluster.local/ns/foo/sa/bar",
    cluster: "Kubernetes",
    issuer: issuers.cluster,
  };
  /** The fields of every call, whatever becomes of it. */
  const anyCall = {
    requestId: expect.stringMatching(traceIdForm),
    traceId: expect.stringMatching(traceIdForm),
    spanId: expect.stringMatching(spanIdForm),
    ...(peer !== undefined && { peer }),
    durationMilliseconds: expect.any(Number),
  };
  const csr = (change: (pem: string) => string = (pem) => pem) => ({
    csr: change(workload.csrPem),
  });

  test.each(protocols)(
    "an issued certificate leaves its caller, its authority, its serial number and its end, over $name",
    async (protocol) => {
      const request = requestOf(protocol, csr(), await bearer(service()));
      const outcome = await outcomeOf(protocol, await service().send(request));
      expect(outcome).toHaveProperty("certChain");
      expect(onlyAudit()).toEqual({
        event: "create-certificate",
        outcome: "issued",
        ...own,
        authority: expect.stringMatching(/^[0-9a-f]{40}$/),
        serialNumber: expect.stringMatching(/^(?:[0-9a-f]{2}){16,20}$/),
        notAfter: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.000Z$/),
        ...anyCall,
      });
    },
  );

  const traceId = "0af7651916cd43dd8448eb211c80319c";
  const parentId = "b7ad6b7169203331";
  const traceparent = `00-${traceId}-${parentId}-01`;

  test.each<[string, Record<string, string>, string]>([
    ["x-request-id before the trace", { "x-request-id": "5f0c-4a:b_c.d" }, "5f0c-4a:b_c.d"],
    ["the trace where x-request-id is malformed", { "x-request-id": "a b" }, traceId],
    ["the trace where x-request-id is too long", { "x-request-id": "x".repeat(65) }, traceId],
  ])("a request id is that of %s", async (_, headers, requestId) => {
    const audit = await audited(csr(), { ...headers, traceparent });
    expect(audit).toMatchObject({ outcome: "refused", requestId });
  });

  test.each(protocols)("a trace is the caller's, over $name", async (protocol) => {
    const audit = await audited(csr(), { traceparent }, protocol);
    expect(audit).toMatchObject({ traceId, parentId, spanId: expect.stringMatching(spanIdForm) });
    expect(audit).not.toMatchObject({ spanId: parentId });
  });

  test("nobody but a gateway says from where a call came", async () => {
    const headers = { ...(await bearer(service())), "x-rampart-peer": "192.0.2.1" };
    const audit = await audited(csr(), { ...headers, "x-forwarded-for": "192.0.2.1" });
    expect(JSON.stringify(audit)).not.toContain("192.0.2.1");
  });

  describe("a refused call", () => {
    test("without a credential leaves that reason alone", async () => {
      expect(await audited(csr(), {})).toEqual({
        event: "create-certificate",
        outcome: "refused",
        reason: "credential-missing",
        detail: expect.any(String),
        ...anyCall,
      });
    });

    test("leaves the check that its credential failed, and no identity", async () => {
      const headers = { ...(await bearer(service())), clusterid: "other" };
      const audit = await audited(csr(), headers);
      expect(audit).toMatchObject({ reason: "credential-rejected", check: "cluster" });
      expect(audit).not.toHaveProperty("spiffeId");
    });

    test.each(protocols)("leaves the reason and the caller, over $name", async (protocol) => {
      const call = { ...csr(), metadata: { ImpersonatedIdentity: "x" } };
      expect(await audited(call, await bearer(service()), protocol)).toEqual({
        event: "create-certificate",
        outcome: "refused",
        reason: "impersonation-denied",
        check: "account",
        detail: expect.any(String),
        ...own,
        ...anyCall,
      });
    });

    test("leaves that its caller had stopped waiting", async () => {
      const headers = {
        ...(await bearer(service(), "foo:bar", issuers.hanging)),
        "connect-timeout-ms": "20",
      };
      expect(await audited(csr(), headers)).toMatchObject({
        outcome: "refused",
        reason: expect.stringMatching(/^(?:request-abandoned|key-provider-unreachable)$/),
      });
    });
  });

  describe("a malformed call", () => {
    const malformed: readonly [string, () => Request | Promise<Request>][] = [
      ["JSON that ends early", async () => requestOf(connectJson, "{", await bearer(service()))],
      [
        "half a frame",
        async () =>
          requestOf(grpcWeb, grpcFrame(octets("x")).subarray(0, 3), await bearer(service())),
      ],
      [
        "a body too large",
        async () => requestOf(connectJson, " ".repeat(65_537), await bearer(service())),
      ],
      [
        "another content type",
        () => requestOf(connectJson, "{}", { "content-type": "text/plain" }),
      ],
    ];
    const native: typeof malformed = [
      ["native gRPC", () => requestOf(connectJson, "{}", { "content-type": "application/grpc" })],
    ];

    test.each([...malformed, ...(hasTrailers ? [] : native)])(
      "leaves one event too: %s",
      async (_, request) => {
        const response = await service().send(await request());
        await response.arrayBuffer();
        expect(onlyAudit()).toMatchObject({
          event: "create-certificate",
          outcome: "refused",
          reason: "rpc-malformed",
          ...anyCall,
        });
      },
    );
  });

  test("no event holds a token, a CSR or a key", async () => {
    const { authorization } = await bearer(service());
    const secrets = [
      ...authorization.slice("Bearer ".length).split("."),
      ...(workload.csrPem.match(/^[A-Za-z0-9+/=]{20,}$/gm) ?? []),
      String(service().key.publicJwk.x),
    ];
    const calls: readonly (CertificateCall | string)[] = [
      csr(),
      csr((pem) => pem.slice(0, -40)),
      csr((pem) => `${pem}${pem}`),
      csr(withBrokenSignature),
      { csr: authorization },
      { ...csr(), metadata: { CertSigner: authorization } },
      { ...csr(), metadata: { ImpersonatedIdentity: authorization } },
      `{"csr":"${workload.csrPem}"`,
      `{"csr":1,"metadata":"${authorization}"}`,
      // The parser quotes this one in its own words.
      `{"validityDuration":"${authorization}"}`,
    ];
    const tokens = [
      authorization,
      `${authorization}x`,
      `${authorization}.x`,
      authorization.slice(0, -10),
      `${authorization}, ${authorization}`,
      authorization.replace(/\.[^.]*\./, ".eyJ9."),
    ];
    const events: AuditLine[] = [];
    for (const protocol of [connectJson, connectBinary]) {
      for (const call of calls) events.push(await audited(call, { authorization }, protocol));
      for (const token of tokens)
        events.push(await audited(csr(), { authorization: token }, protocol));
    }
    const log = events.map((event) => JSON.stringify(event)).join("\n");
    expect(secrets.filter((secret) => log.includes(secret.slice(0, 20)))).toEqual([]);
    expect(log).not.toContain("BEGIN");
  });
}
