import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { expectCallsCounted } from "../../contract/call-counts.ts";
import { bearer } from "../../contract/rpc-calls.ts";
import { issuerTables } from "../../contract/service-under-test.ts";
import { type ServedCa, serveCa, servedName } from "../../testkit/ca/served-ca.ts";
import { createTokenKey, jwksOf, type TokenKey } from "../../testkit/callers/tokens.ts";
import { createWorkload } from "../../testkit/callers/workload.ts";
import { connectHttp2 } from "../../testkit/network/http2-client.ts";
import { type NativeClient, nativeClient } from "../../testkit/network/native-grpc.ts";

let served: ServedCa;
let key: TokenKey;
let client: NativeClient;

const service = () => ({ key, now: () => new Date() });

beforeAll(async () => {
  key = await createTokenKey("ES256", "k1");
  served = await serveCa({
    PLAINTEXT_LISTEN: "127.0.0.1:0",
    ISSUERS: [{ ...issuerTables.cluster, jwks: jwksOf(key) }],
  });
  client = nativeClient(served.port, servedName, { roots: await served.bundle() });
});

afterAll(async () => {
  client.close();
  await served.end();
});

async function metrics(): Promise<string> {
  return (await fetch(`http://127.0.0.1:${served.monitoringPort}/metrics`)).text();
}

const sendTo = (origin: string) => (request: Request) =>
  fetch(new Request(`${origin}${new URL(request.url).pathname}`, request));

/** The value of a series, its labels as they are written. */
async function seriesValue(series: string): Promise<number> {
  const line = (await metrics()).split("\n").find((each) => each.startsWith(`${series} `));
  return Number(line?.slice(series.length + 1) ?? Number.NaN);
}

describe("the metrics", () => {
  test("count what istiod counts, under its names", async () => {
    const { csrPem: csr } = await createWorkload();
    const headers = await bearer(service());
    await client.createCertificate({ csr }, headers);
    await client.createCertificate({ csr });
    await client.createCertificate({ csr: "junk" }, headers);
    await client.createCertificate({ csr, validityDuration: 2n ** 40n }, headers);
    await client.createCertificate({ csr, metadata: { ImpersonatedIdentity: "x" } }, headers);
    await client.createCertificate({ csr, metadata: { CertSigner: "x" } }, headers);
    const seen = await metrics();
    for (const line of [
      "citadel_server_csr_count 6",
      "citadel_server_success_cert_issuance_count 1",
      "citadel_server_authentication_failure_count 2",
      'citadel_server_csr_sign_err_count{error="CSR_ERROR"} 1',
      'citadel_server_csr_sign_err_count{error="TTL_ERROR"} 1',
      'citadel_server_csr_sign_err_count{error="UNKNOWN"} 1',
    ]) {
      expect(seen.split("\n")).toContain(line);
    }
  });

  test("count and time RPCs as every gRPC server's do", async () => {
    const method =
      'grpc_type="unary",grpc_service="istio.v1.auth.IstioCertificateService",grpc_method="CreateCertificate"';
    const handled = (code: string) =>
      seriesValue(`grpc_server_handled_total{${method},grpc_code="${code}"}`);
    expect(await handled("OK")).toBe(1);
    expect(await handled("Unauthenticated")).toBe(1);
    expect(await handled("InvalidArgument")).toBe(3);
    expect(await handled("PermissionDenied")).toBe(1);
    expect(await seriesValue(`grpc_server_handling_seconds_count{${method}}`)).toBe(6);
  });

  test.each(["HTTP/2", "HTTP/1.1"] as const)("count by code over %s", async (version) => {
    const origin = `http://127.0.0.1:${served.server.plaintextAddress?.port}`;
    const http2 = connectHttp2(origin);
    onTestFinished(() => http2.session.destroy());
    const send = version === "HTTP/2" ? http2.send : sendTo(origin);
    const { csrPem: csr } = await createWorkload();
    await expectCallsCounted({ send, metrics }, version, { csr, headers: await bearer(service()) });
  });
});
