import { expect, onTestFinished, test } from "vitest";
import { openTelemetry } from "../../../src/program/otlp/telemetry.ts";
import { issuerTables } from "../../contract/service-under-test.ts";
import { serveCa, servedName } from "../../testkit/ca/served-ca.ts";
import { createTokenKey, jwksOf, mintAccountToken } from "../../testkit/callers/tokens.ts";
import { createWorkload } from "../../testkit/callers/workload.ts";
import { nativeClient } from "../../testkit/network/native-grpc.ts";
import { attributesOf, playCollector } from "../../testkit/observability/collector.ts";

const { issuer } = issuerTables.cluster;
const traceId = "0af7651916cd43dd8448eb211c80319c";
const parentId = "b7ad6b7169203331";
const method = "istio.v1.auth.IstioCertificateService/CreateCertificate";

/** A CA that logs and exports, and what its collector gets of some calls. */
async function spansOf(
  calls: readonly Readonly<Record<string, string>>[],
  environment: Readonly<Record<string, string>> = {},
) {
  const collector = await playCollector();
  const telemetry = await openTelemetry(
    { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, ...environment },
    "serve",
    () => new Date(),
  );
  const key = await createTokenKey("ES256", "k1");
  const values = { LOG_ORIGIN: "log.example.com/2026", ISSUERS: [{ issuer, jwks: jwksOf(key) }] };
  const ca = await serveCa(values, undefined, "both", telemetry);
  onTestFinished(ca.end);
  const token = await mintAccountToken(key, issuer, "foo:bar", new Date());
  const client = nativeClient(ca.port, servedName, { roots: await ca.bundle() });
  const { csrPem: csr } = await createWorkload();
  for (const headers of calls)
    await client.createCertificate({ csr }, { authorization: `Bearer ${token}`, ...headers });
  client.close();
  await ca.server.close(1000);
  return { ...collector, audits: ca.log.audits, token, csr };
}

test("a sampled call to serve has a span with the ids of its audit line, and its parts", async () => {
  const traceparent = `00-${traceId}-${parentId}-01`;
  const { spans, metrics, audits, token, csr } = await spansOf([
    {},
    { traceparent },
    { traceparent: `00-${traceId}-${parentId}-00` },
    { traceparent, authorization: "Bearer a.b.c" },
  ]);
  const [, issued, , refused] = audits;
  const rows = spans.map(({ name, spanId, parentSpanId }) => [name, spanId, parentSpanId]);
  const part = (name: string, { spanId } = issued ?? {}) => [name, expect.any(String), spanId];
  expect(rows).toEqual([
    [method, issued?.["spanId"], parentId],
    part("verify"),
    part("sign"),
    part("log"),
    [method, refused?.["spanId"], parentId],
    part("verify", refused),
  ]);
  expect(attributesOf(spans[0])).toEqual({
    "rpc.system.name": "grpc",
    "rpc.method": method,
    "rpc.response.status_code": "OK",
    "rampart.outcome": "issued",
    "rampart.spiffe_id": "spiffe://cluster.local/ns/foo/sa/bar",
    "rampart.cluster": "Kubernetes",
    "rampart.request_id": traceId,
  });
  expect(attributesOf(spans[4])).toMatchObject({
    "rpc.response.status_code": "UNAUTHENTICATED",
    "rampart.reason": "credential-rejected",
  });
  expect(spans.map(({ status }) => status.code)).toEqual([...Array(5).fill(undefined), 2]);
  const text = JSON.stringify([spans, [...metrics]]);
  for (const secret of [token, csr.slice(40, 80)]) expect(text).not.toContain(secret);
  const [{ asDouble }] = metrics.get("citadel_server_csr_count").sum.dataPoints;
  expect(asDouble).toBe(4);
});
