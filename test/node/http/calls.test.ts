import { once } from "node:events";
import { fromBinary } from "@bufbuild/protobuf";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import {
  HealthCheckResponseSchema,
  HealthCheckResponse_ServingStatus as Status,
} from "../../../src/gen/grpc/health/v1/health_pb.ts";
import { expectCallsCounted } from "../../contract/call-counts.ts";
import { bearer } from "../../contract/rpc-calls.ts";
import { issuers, issuerTables, rpcPath } from "../../contract/service-under-test.ts";
import { type ServedCa, serveCa, servedName } from "../../testkit/ca/served-ca.ts";
import { createTokenKey, jwksOf } from "../../testkit/callers/tokens.ts";
import { createWorkload } from "../../testkit/callers/workload.ts";
import { connectHttp2 } from "../../testkit/network/http2-client.ts";
import { type NativeClient, nativeClient } from "../../testkit/network/native-grpc.ts";
import { createVirtualTime } from "../../testkit/time/virtual-time.ts";

let served: ServedCa;
let csr: string;
let client: NativeClient;
let plaintext: NativeClient;
let plaintextOrigin: string;
let service: Parameters<typeof bearer>[0];

beforeAll(async () => {
  const key = await createTokenKey("ES256", "k1");
  csr = (await createWorkload()).csrPem;
  const ISSUERS = [
    { ...issuerTables.cluster, jwks: jwksOf(key) },
    { ...issuerTables.hanging, jwks_uri: "http://127.0.0.1:9" },
  ];
  // By a clock that goes on, each call would need a look at the store of its own, which a busy machine delays.
  const time = createVirtualTime(new Date());
  served = await serveCa({ PLAINTEXT_LISTEN: "127.0.0.1:0", ISSUERS }, time);
  client = nativeClient(served.port, servedName, { roots: await served.bundle() });
  const port = served.server.plaintextAddress?.port ?? 0;
  plaintext = nativeClient(port, servedName);
  plaintextOrigin = `http://127.0.0.1:${port}`;
  service = { key, now: time.clock };
});

afterAll(async () => {
  client.close();
  plaintext.close();
  await served.end();
});

const metrics = async (): Promise<string> => (await served.monitored("/metrics")).text();

const isIssued = { certChain: [expect.any(String), expect.any(String)] };

describe("a native gRPC call", () => {
  test("gets a certificate over TLS, and in plaintext if that is configured", async () => {
    const headers = { ...(await bearer(service)), clusterid: "Kubernetes" };
    const call = { csr, validityDuration: 86_400n, metadata: { CertSigner: "" } };
    expect(await client.createCertificate(call, headers)).toEqual(isIssued);
    expect(await plaintext.createCertificate(call, headers)).toEqual(isIssued);
    expect(served.log.takeAudits()).toEqual([
      expect.objectContaining({ outcome: "issued" }),
      expect.objectContaining({ outcome: "issued" }),
    ]);
  });

  const refusals: readonly [string, object, () => object][] = [
    ["Unauthenticated", {}, () => ({ authorization: "Bearer junk" })],
    ["InvalidArgument", { csr: "junk" }, () => bearer(service)],
    ["Unavailable", {}, () => bearer(service, "foo:bar", issuers.hanging)],
    ["ResourceExhausted", { csr: "x".repeat(70_000) }, () => bearer(service)],
  ];

  test.each(refusals)("is refused with %s", async (code, call, headersOf) => {
    const headers = (await headersOf()) as Record<string, string>;
    const outcome = await client.createCertificate({ csr, ...call }, headers);
    expect(outcome).toMatchObject({ code });
    expect(served.log.takeAudits()).toHaveLength(1);
  });

  test("to an unknown method is unimplemented", async () => {
    const path = "/istio.v1.auth.IstioCertificateService/HandleCSR";
    expect(await client.unary(path, new Uint8Array())).toMatchObject({ code: "Unimplemented" });
  });

  test("that is malformed is refused, and its connection serves other calls", async () => {
    const junk = new Uint8Array(64).fill(0xff);
    const outcome = await client.unary(rpcPath, junk, await bearer(service));
    expect(outcome).toMatchObject({ code: "Internal" });
    const again = await client.createCertificate({ csr }, await bearer(service));
    expect(again).toEqual(isIssued);
  });

  test("may be one of many at once on a connection", async () => {
    const headers = await bearer(service);
    const calls = Array.from({ length: 50 }, () => client.createCertificate({ csr }, headers));
    for (const outcome of await Promise.all(calls)) expect(outcome).toEqual(isIssued);
  });
});

test("a deadline ends a call whose message does not come", async () => {
  const headers = { "content-type": "application/grpc", "grpc-timeout": "50m" };
  served.log.takeAudits();
  const { session } = connectHttp2(plaintextOrigin);
  onTestFinished(() => session.destroy());
  const call = { ":method": "POST", ":path": rpcPath, ...headers, ...(await bearer(service)) };
  const stream = session.request(call);
  stream.write(new Uint8Array([0, 0, 0, 1, 0, 0x0a]));
  const [answer] = await once(stream, "response");
  expect(answer["grpc-status"]).toBe("4");
  await once(stream.resume(), "close");
  expect(served.log.takeAudits()).toMatchObject([{ outcome: "refused" }]);
});

describe("gRPC's health service", () => {
  const path = "/grpc.health.v1.Health/Check";
  const name = "istio.v1.auth.IstioCertificateService";
  const asking = (service: string) =>
    new Uint8Array([0x0a, service.length, ...new TextEncoder().encode(service)]);

  test.each(["", name, "rampart.jwt.v1.JwtSvidService"])(
    "reports that %j serves",
    async (service) => {
      const answer = await client.unary(path, asking(service));
      if (!(answer instanceof Uint8Array)) throw new Error(answer.code);
      expect(fromBinary(HealthCheckResponseSchema, answer).status).toBe(Status.SERVING);
    },
  );

  test("does not know an unknown service", async () => {
    expect(await client.unary(path, asking("x.Y"))).toMatchObject({ code: "NotFound" });
  });

  test("answers in plaintext on the monitoring port, and nothing else does there", async () => {
    const monitoring = nativeClient(served.monitoringPort, servedName);
    expect(await monitoring.unary(path, asking(""))).toBeInstanceOf(Uint8Array);
    expect(await monitoring.createCertificate({ csr }, await bearer(service))).toMatchObject({
      code: "Unimplemented",
    });
    monitoring.close();
  });
});

test.each([rpcPath, rpcPath.replace("istio", "%69stio"), rpcPath.replace("Create", "%43reate")])(
  "the monitoring port has nothing at %s",
  async (path) => {
    const headers = { "content-type": "application/json" };
    const { status } = await served.monitored(path, { method: "POST", headers, body: "{}" });
    expect(status).toBe(404);
  },
);

describe("the metrics", () => {
  /** What the calls of the test add to each series, its labels as they are written. */
  async function added(work: () => Promise<unknown>) {
    const values = async () =>
      new Map(
        (await metrics()).split("\n").map((line) => line.split(/ (?=\S+$)/) as [string, string]),
      );
    const before = await values();
    await work();
    const after = await values();
    return (series: string) => Number(after.get(series)) - Number(before.get(series) ?? 0);
  }

  test("count what istiod counts, under its names, and RPCs as every gRPC server does", async () => {
    const headers = await bearer(service);
    const counted = await added(async () => {
      await client.createCertificate({ csr }, headers);
      await client.createCertificate({ csr });
      await client.createCertificate({ csr: "junk" }, headers);
      await client.createCertificate({ csr, validityDuration: 2n ** 40n }, headers);
      await client.createCertificate({ csr, metadata: { ImpersonatedIdentity: "x" } }, headers);
      await client.createCertificate({ csr, metadata: { CertSigner: "x" } }, headers);
    });
    const method =
      'grpc_type="unary",grpc_service="istio.v1.auth.IstioCertificateService",grpc_method="CreateCertificate"';
    const handled = (code: string) => `grpc_server_handled_total{${method},grpc_code="${code}"}`;
    for (const [series, count] of [
      ["citadel_server_csr_count", 6],
      ["citadel_server_success_cert_issuance_count", 1],
      ["citadel_server_authentication_failure_count", 2],
      ['citadel_server_csr_sign_err_count{error="CSR_ERROR"}', 1],
      ['citadel_server_csr_sign_err_count{error="TTL_ERROR"}', 1],
      ['citadel_server_csr_sign_err_count{error="UNKNOWN"}', 1],
      [handled("OK"), 1],
      [handled("Unauthenticated"), 1],
      [handled("InvalidArgument"), 3],
      [handled("PermissionDenied"), 1],
      [`grpc_server_handling_seconds_count{${method}}`, 6],
    ] as const)
      expect([series, counted(series)]).toEqual([series, count]);
  });

  test.each(["HTTP/2", "HTTP/1.1"] as const)("count by code over %s", async (version) => {
    const http2 = connectHttp2(plaintextOrigin);
    onTestFinished(() => http2.session.destroy());
    const overHttp1 = (request: Request) =>
      fetch(new Request(`${plaintextOrigin}${new URL(request.url).pathname}`, request));
    const send = version === "HTTP/2" ? http2.send : overHttp1;
    await expectCallsCounted({ send, metrics }, version, { csr, headers: await bearer(service) });
  });
});
