import { once } from "node:events";
import { fromBinary } from "@bufbuild/protobuf";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import {
  HealthCheckResponseSchema,
  HealthCheckResponse_ServingStatus as Status,
} from "../../../src/gen/grpc/health/v1/health_pb.ts";
import { bearer } from "../../contract/rpc-calls.ts";
import { issuers, issuerTables, rpcPath } from "../../contract/service-under-test.ts";
import { type ServedCa, serveCa, servedName } from "../../testkit/ca/served-ca.ts";
import { createTokenKey, jwksOf, type TokenKey } from "../../testkit/callers/tokens.ts";
import { createWorkload, type Workload } from "../../testkit/callers/workload.ts";
import { connectHttp2 } from "../../testkit/network/http2-client.ts";
import { type NativeClient, nativeClient } from "../../testkit/network/native-grpc.ts";
import { createVirtualTime } from "../../testkit/time/virtual-time.ts";

let served: ServedCa;
let key: TokenKey;
let workload: Workload;
let client: NativeClient;
let plaintext: NativeClient;
let service: Parameters<typeof bearer>[0];

beforeAll(async () => {
  [key, workload] = await Promise.all([createTokenKey("ES256", "k1"), createWorkload()]);
  const ISSUERS = [
    { ...issuerTables.cluster, jwks: jwksOf(key) },
    { ...issuerTables.hanging, jwks_uri: "http://127.0.0.1:9" },
  ];
  // By a clock that goes on, each call would need a look at the store of its own, which a busy machine delays.
  const time = createVirtualTime(new Date());
  served = await serveCa({ PLAINTEXT_LISTEN: "127.0.0.1:0", ISSUERS }, time);
  client = nativeClient(served.port, servedName, { roots: await served.bundle() });
  plaintext = nativeClient(served.server.plaintextAddress?.port ?? 0, servedName);
  service = { key, now: time.clock };
});

afterAll(async () => {
  client.close();
  plaintext.close();
  await served.end();
});

const isIssued = { certChain: [expect.any(String), expect.any(String)] };

describe("a native gRPC call", () => {
  test("gets a certificate over TLS, and in plaintext if that is configured", async () => {
    const headers = { ...(await bearer(service)), clusterid: "Kubernetes" };
    const call = { csr: workload.csrPem, validityDuration: 86_400n, metadata: { CertSigner: "" } };
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
    const outcome = await client.createCertificate({ csr: workload.csrPem, ...call }, headers);
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
    const again = await client.createCertificate({ csr: workload.csrPem }, await bearer(service));
    expect(again).toEqual(isIssued);
  });

  test("may be one of many at once on a connection", async () => {
    const headers = await bearer(service);
    const calls = Array.from({ length: 50 }, () =>
      client.createCertificate({ csr: workload.csrPem }, headers),
    );
    for (const outcome of await Promise.all(calls)) expect(outcome).toEqual(isIssued);
  });
});

test("a deadline ends a call whose message does not come", async () => {
  const headers = { "content-type": "application/grpc", "grpc-timeout": "50m" };
  served.log.takeAudits();
  const { session } = connectHttp2(`http://127.0.0.1:${served.server.plaintextAddress?.port}`);
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
    expect(
      await monitoring.createCertificate({ csr: workload.csrPem }, await bearer(service)),
    ).toMatchObject({ code: "Unimplemented" });
    monitoring.close();
  });
});

test.each([rpcPath, rpcPath.replace("istio", "%69stio"), rpcPath.replace("Create", "%43reate")])(
  "the monitoring port has nothing at %s",
  async (path) => {
    const url = `http://127.0.0.1:${served.monitoringPort}${path}`;
    const headers = { "content-type": "application/json" };
    expect((await fetch(url, { method: "POST", headers, body: "{}" })).status).toBe(404);
  },
);
