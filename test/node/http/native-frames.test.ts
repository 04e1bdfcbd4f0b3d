import { once } from "node:events";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { bearer, connectBinary, grpcFrame, octets } from "../../contract/rpc-calls.ts";
import {
  issuerTables,
  origin,
  rpcPath,
  type ServiceUnderTest,
} from "../../contract/service-under-test.ts";
import { type ServedCa, serveCa } from "../../testkit/ca/served-ca.ts";
import { createTokenKey, jwksOf, type TokenKey } from "../../testkit/callers/tokens.ts";
import { createWorkload, type Workload } from "../../testkit/callers/workload.ts";
import { connectHttp2, type Http2Client } from "../../testkit/network/http2-client.ts";

let served: ServedCa;
let client: Http2Client;
let key: TokenKey;
let workload: Workload;

beforeAll(async () => {
  [key, workload] = await Promise.all([createTokenKey("ES256", "k1"), createWorkload()]);
  served = await serveCa({
    PLAINTEXT_LISTEN: "127.0.0.1:0",
    ISSUERS: [
      { ...issuerTables.cluster, jwks: jwksOf(key) },
      { ...issuerTables.hanging, jwks_uri: "http://127.0.0.1:9" },
    ],
  });
  client = connectHttp2(`http://127.0.0.1:${served.server.plaintextAddress?.port}`);
});

afterAll(async () => {
  client.session.destroy();
  await served.end();
});

beforeEach(() => {
  served.log.audits.length = 0;
});

const service = (): ServiceUnderTest => ({
  send: client.send,
  key,
  now: () => new Date(),
  takeAudits: () => [],
});

/** The trailers of an answer that has nothing else, or its content. */
async function send(body: Uint8Array, headers: Record<string, string> = {}) {
  const credential = await bearer(service());
  const request = new Request(`${origin}${rpcPath}`, {
    method: "POST",
    headers: { "content-type": "application/grpc", te: "trailers", ...credential, ...headers },
    body: octets(body),
  });
  const response = await client.send(request);
  return {
    status: response.headers.get("grpc-status") ?? "in trailers",
    message: decodeURIComponent(response.headers.get("grpc-message") ?? ""),
    length: (await response.arrayBuffer()).byteLength,
  };
}

const message = () => connectBinary.encode({ csr: workload.csrPem });

// A type in capitals is left to Connect, whose way and the short one must agree.
describe.each<[string, Record<string, string>]>([
  ["the short way", {}],
  ["the short way with a deadline", { "grpc-timeout": "30S" }],
  ["Connect's way", { "content-type": "Application/GRPC" }],
])("a native gRPC call by %s", (_, way) => {
  test.each<[string, string, () => Uint8Array]>([
    ["12", "nothing", () => new Uint8Array()],
    ["3", "half a frame's head", () => new Uint8Array(3)],
    ["3", "half a frame", () => grpcFrame(message()).subarray(0, 100)],
    ["12", "two frames", () => new Uint8Array([...grpcFrame(message()), ...grpcFrame(message())])],
    ["13", "a compressed frame", () => grpcFrame(message(), 1)],
    ["13", "a frame with reserved flags", () => grpcFrame(message(), 2)],
    ["13", "a frame of trailers", () => grpcFrame(message(), 0x80)],
    ["13", "junk in a frame", () => grpcFrame(new Uint8Array(64).fill(0xff))],
    ["8", "a frame too large", () => grpcFrame(new Uint8Array(65_536 + 1))],
    ["8", "a frame that announces too much", () => new Uint8Array([0, 0x7f, 0xff, 0xff, 0xff, 1])],
  ])("is refused with %s when it is %s", async (status, __, body) => {
    expect(await send(body(), way)).toMatchObject({ status, length: 0 });
    expect(served.log.audits).toMatchObject([{ outcome: "refused", reason: "rpc-malformed" }]);
    expect(JSON.stringify(served.log.audits)).not.toContain("BEGIN");
  });
});

test("a deadline ends a call whose message does not come", async () => {
  const stream = client.session.request({
    ":method": "POST",
    ":path": rpcPath,
    "content-type": "application/grpc",
    "grpc-timeout": "50m",
    ...(await bearer(service())),
  });
  stream.write(grpcFrame(message()).subarray(0, 100));
  const [headers] = await once(stream, "response");
  expect(headers["grpc-status"]).toBe("4");
  stream.resume();
  await once(stream, "close");
  expect(served.log.audits).toMatchObject([{ outcome: "refused" }]);
});
