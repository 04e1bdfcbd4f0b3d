import { once } from "node:events";
import type { Socket } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { forwardingRpcs } from "../../../src/node/gateway/forwarding.ts";
import { SlowCalls } from "../../../src/node/gateway/slow-calls.ts";
import { openUpstream, rememberedAuthorization } from "../../../src/node/gateway/upstream.ts";
import { listenInPlaintext } from "../../../src/node/http/listener.ts";
import { TrustDomain } from "../../../src/pki/spiffe-id.ts";
import { grpcFrame, octets } from "../../contract/rpc-calls.ts";
import { origin, rpcPath } from "../../contract/service-under-test.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { connectHttp2 } from "../../testkit/network/http2-client.ts";
import {
  granted,
  type RawAnswer,
  rawResponse,
  startRawServer,
} from "../../testkit/network/raw-server.ts";
import { eventually } from "../../testkit/time/eventually.ts";

/** The gateway's RPC in front of a server that a test plays. */
async function startForwarding(answer: RawAnswer, elsewhere?: string) {
  const { url, ...server } = await startRawServer(answer);
  const upstream = openUpstream(elsewhere ?? url, () => undefined);
  const log = createEventRecorder();
  const trustDomain = TrustDomain.parse("cluster.local");
  if (!trustDomain) throw new Error("not a trust domain");
  const credentials = async () => ({ authorization: "Bearer gateway", clusterid: "g" });
  const clock = () => new Date();
  const outcomes: string[] = [];
  const ended = (outcome: string): void => void outcomes.push(outcome);
  const ownAuthorization = rememberedAuthorization(credentials, clock);
  const own = { credentials, ownAuthorization, slowCalls: new SlowCalls() };
  const rpcs = forwardingRpcs({ upstream, ...own, trustDomain, log, clock, ended });
  const routes = { rpcs, fetch: async () => new Response(), log };
  const listener = await listenInPlaintext(routes, { host: "127.0.0.1", port: 0 });
  const client = connectHttp2(`http://127.0.0.1:${listener.address.port}`);
  onTestFinished(async () => {
    client.session.destroy();
    upstream.close();
    await listener.close(100);
  });
  const call = (body: Uint8Array, headers: Record<string, string> = {}): Promise<Response> =>
    client.send(
      new Request(`${origin}${rpcPath}`, {
        method: "POST",
        headers: { "content-type": "application/grpc", authorization: "Bearer x", ...headers },
        body: octets(body),
      }),
    );
  return { ...server, client, log, outcomes, call };
}

const message = new TextEncoder().encode("msg");
const empty = grpcFrame(new Uint8Array());

test("the message of a native gRPC call and its answer are forwarded without being parsed", async () => {
  const { call, heard, log } = await startForwarding((socket) => socket.write(granted));
  const response = await call(grpcFrame(message), {
    clusterid: "team",
    "x-other": "y",
    "x-rampart-gateway": "Bearer stranger",
    "x-rampart-peer": "192.0.2.1",
  });
  expect(new Uint8Array(await response.arrayBuffer())).toEqual(
    grpcFrame(new TextEncoder().encode("abc")),
  );
  expect(heard[0]).toMatch(/\r\n\r\nmsg$/);
  expect(heard[0]).toMatch(
    /\r\nauthorization: Bearer x\r\nx-rampart-gateway: Bearer gateway\r\nx-rampart-peer: 127\.0\.0\.1\r\nclusterid: team\r\n/i,
  );
  expect(heard[0]).not.toContain("x-other");
  expect(log.operations).toMatchObject([
    { event: "forwarded", level: "info", outcome: "answered", upstreamStatus: 200, code: "ok" },
  ]);
});

test("a call that another gateway has forwarded goes no further", async () => {
  const { call, heard, log } = await startForwarding((socket) => socket.write(granted));
  const response = await call(empty, { "x-rampart-forwards": "certificate" });
  expect(response.headers.get("grpc-status")).toBe("16");
  expect(heard).toEqual([]);
  expect(log.operations).toMatchObject([{ event: "not-forwarded", outcome: "rejected" }]);
});

test("a call in JSON needs a credential before its message is parsed", async () => {
  const { client, heard, log } = await startForwarding((socket) => socket.write(granted));
  const response = await client.send(
    new Request(`${origin}${rpcPath}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: "{",
    }),
  );
  expect(response.status).toBe(401);
  expect(heard).toEqual([]);
  expect(log.operations).toMatchObject([{ event: "not-forwarded", outcome: "rejected" }]);
});

test("a call in JSON with many values goes no further", async () => {
  const { call, heard } = await startForwarding((socket) => socket.write(granted));
  const dense = JSON.stringify({ csr: "x", metadata: { a: Array(1000).fill({}) } });
  const response = await call(octets(dense), { "content-type": "application/json" });
  expect(response.status).toBe(400);
  expect(await response.json()).toMatchObject({ code: "invalid_argument" });
  expect(heard).toEqual([]);
});

test("calls that the CA does not answer keep no other call waiting, not even of their connection", async () => {
  const { call, outcomes } = await startForwarding((socket, request) => {
    if (!request.includes("Bearer silent")) socket.write(granted);
  });
  const silent = { authorization: "Bearer silent" };
  for (let i = 0; i < 40; i++) call(grpcFrame(message), silent).catch(() => {});
  const answered = await call(grpcFrame(message));
  expect(answered.status).toBe(200);
  expect(outcomes).toEqual(["answered"]);
});

/** A line of the log for each way in which a call can end without a certificate. */
describe("a call that gets no certificate is logged with what happened upstream", () => {
  const refusal = (code: string, message: string) =>
    rawResponse("401 Unauthorized", "application/json", JSON.stringify({ code, message }));

  test.each<[string, RawAnswer, object]>([
    [
      "a refusal of the CA",
      (socket) => socket.write(refusal("unauthenticated", "request authentication failed")),
      {
        event: "forwarded",
        outcome: "refused",
        upstreamStatus: 401,
        code: "Unauthenticated",
        detail: "the CA refused the call: request authentication failed",
      },
    ],
    [
      "a proxy that answers in the CA's place",
      (socket) => socket.write(rawResponse("502 Bad Gateway", "text/html", "<html>")),
      {
        event: "upstream-unavailable",
        outcome: "unavailable",
        upstreamStatus: 502,
        code: "Unavailable",
        detail: "the CA answered with status 502",
      },
    ],
    [
      "a connection that is cut",
      (socket) => void socket.destroy(),
      {
        event: "upstream-unavailable",
        outcome: "unavailable",
        code: "Unavailable",
        detail: expect.stringMatching(/^the CA did not answer \(E[A-Z]+\)$/),
      },
    ],
  ])("%s", async (_, answer, line) => {
    const { call, log, outcomes } = await startForwarding(answer);
    await call(grpcFrame(message));
    const { outcome } = line as { outcome: string };
    expect(log.operations).toEqual([expect.objectContaining({ level: "warning", ...line })]);
    expect(outcomes).toEqual([outcome]);
  });

  test("a CA to which no connection opens", async () => {
    const { call, log } = await startForwarding(() => {}, "http://127.0.0.1:9");
    await call(grpcFrame(message));
    expect(log.operations).toMatchObject([
      { event: "upstream-unavailable", detail: "the CA did not answer (ECONNREFUSED)" },
    ]);
    expect(JSON.stringify(log.operations)).not.toContain("upstreamStatus");
  });

  test("a deadline that passes while the CA is silent", async () => {
    const { call, log, outcomes } = await startForwarding(() => {});
    const answer = await call(grpcFrame(message), { "grpc-timeout": "20m" });
    expect(answer.headers.get("grpc-status")).toBe("4");
    expect(log.operations).toMatchObject([
      { event: "upstream-unavailable", outcome: "abandoned", code: "DeadlineExceeded" },
    ]);
    expect(outcomes).toEqual(["abandoned"]);
  });

  test("a call that the gateway itself turns away", async () => {
    const { call, log, outcomes, heard } = await startForwarding(() => {});
    await call(grpcFrame(message, 1));
    expect(heard).toEqual([]);
    expect(log.operations).toMatchObject([
      { event: "not-forwarded", level: "warning", outcome: "rejected", code: "Internal" },
    ]);
    expect(outcomes).toEqual(["rejected"]);
  });
});

describe("the trace of a call", () => {
  const traceId = "0af7651916cd43dd8448eb211c80319c";
  const parentId = "b7ad6b7169203331";
  const traceparent = `00-${traceId}-${parentId}-01`;

  async function forwarded(headers: Record<string, string>) {
    const { call, heard, log } = await startForwarding((socket) => socket.write(granted));
    await call(grpcFrame(message), headers);
    const head = heard[0] ?? "";
    const [, sentTrace, sentSpan, flags] =
      /\r\ntraceparent: 00-([0-9a-f]{32})-([0-9a-f]{16})-(\d\d)\r\n/i.exec(head) ?? [];
    const [, state] = /\r\ntracestate: (.*?)\r\n/i.exec(head) ?? [];
    return { line: log.operations[0], sentTrace, sentSpan, flags, state };
  }

  test("goes on to the CA with the gateway's span as its parent", async () => {
    const { line, sentTrace, sentSpan, flags, state } = await forwarded({
      traceparent,
      tracestate: "vendor=a1,other=b",
    });
    expect([sentTrace, flags, state]).toEqual([traceId, "01", "vendor=a1,other=b"]);
    expect(sentSpan).not.toBe(parentId);
    expect(line).toMatchObject({ traceId, parentId, spanId: sentSpan, requestId: traceId });
  });

  test.each<[string, Record<string, string>]>([
    ["without one", {}],
    ["with a malformed one", { traceparent: `00-${traceId}-${parentId}` }],
    ["with a state alone", { tracestate: "vendor=a1" }],
  ])("begins at the gateway for a call %s", async (_, headers) => {
    const { line, sentTrace, sentSpan, state } = await forwarded(headers);
    expect(sentTrace).toMatch(/^[0-9a-f]{32}$/);
    expect([sentTrace, state]).not.toContain(traceId);
    expect(state).toBeUndefined();
    expect(line).toMatchObject({ traceId: sentTrace, spanId: sentSpan });
    expect(line).not.toHaveProperty("parentId");
  });
});

test.each<[string, string, () => Uint8Array]>([
  ["12", "nothing", () => new Uint8Array()],
  ["3", "half a frame's head", () => new Uint8Array(3)],
  ["3", "half a frame", () => grpcFrame(message).subarray(0, 7)],
  ["12", "two frames", () => new Uint8Array([...empty, ...empty])],
  ["13", "a compressed frame", () => grpcFrame(message, 1)],
  ["8", "a frame too large", () => grpcFrame(new Uint8Array(65_536 + 1))],
  ["8", "a frame that announces too much", () => new Uint8Array([0, 0x7f, 0xff, 0xff, 0xff, 1])],
])("a call is refused with %s when it is %s, and does not reach the CA", async (...row) => {
  const [status, , body] = row;
  const { call, heard } = await startForwarding((socket) => socket.write(granted));
  for (const headers of [{}, { "content-type": "Application/GRPC" }]) {
    expect((await call(body(), headers)).headers.get("grpc-status")).toBe(status);
  }
  expect(heard).toEqual([]);
});

test("a zero-length message is a message", async () => {
  const { call, heard } = await startForwarding((socket) => socket.write(granted));
  expect((await call(grpcFrame(new Uint8Array()))).headers.has("grpc-status")).toBe(false);
  expect(heard[0]).toMatch(/content-length: 0\r\n/);
});

test.each<[string, string, Uint8Array, Record<string, string>, string]>([
  ["gRPC", "application/grpc", grpcFrame(message), { "grpc-timeout": "20M" }, "1200000"],
  ["gRPC for ages", "application/grpc", empty, { "grpc-timeout": "99999999H" }, "1000000000"],
  ["gRPC by Connect", "Application/GRPC", empty, { "grpc-timeout": "99999999H" }, "1000000000"],
  ["gRPC-Web", "application/grpc-web+proto", empty, { "grpc-timeout": "99999999H" }, "1000000000"],
  ["Connect", "application/proto", message, { "connect-timeout-ms": "9999999999" }, "1000000000"],
  [
    "Connect JSON",
    "application/json",
    octets("{}"),
    { "connect-timeout-ms": "9999999999" },
    "1000000000",
  ],
])(
  "a call over %s is answered over the same protocol, and its deadline goes on, if no longer than a timer",
  async (...row) => {
    const [, type, body, timeout, milliseconds] = row;
    const answer = rawResponse("200 OK", "application/proto", "");
    const { call, heard } = await startForwarding((socket) => socket.write(answer));
    const response = await call(body, { "content-type": type, ...timeout });
    expect(response.status).toBe(200);
    expect(response.headers.has("grpc-status")).toBe(false);
    expect(response.headers.get("content-type")?.toLowerCase()).toContain(type.toLowerCase());
    expect(heard[0]).toMatch(/content-type: application\/proto\r\n/);
    expect(heard[0]).toContain(`\r\nconnect-timeout-ms: ${milliseconds}\r\n`);
  },
);

test("a call whose caller hangs up ends at the CA", async () => {
  const { client, heard, sockets } = await startForwarding(() => {});
  const headers = { "content-type": "application/grpc", authorization: "Bearer x" };
  const stream = client.session.request({ ":method": "POST", ":path": rpcPath, ...headers });
  stream.on("error", () => {});
  stream.end(grpcFrame(message));
  await eventually(() => expect(heard).toHaveLength(1));
  const [socket] = sockets;
  const ended = once(socket as Socket, "close");
  stream.close(8);
  await ended;
});

test("a message of the CA cannot add headers to the answer", async () => {
  const said = JSON.stringify({ code: "internal", message: "a\r\ngrpc-status: 0\r\n%é\u0000" });
  const { call } = await startForwarding((socket) =>
    socket.write(rawResponse("500 X", "application/json", said)),
  );
  const response = await call(grpcFrame(message));
  expect(response.headers.get("grpc-status")).toBe("13");
  expect(response.headers.get("grpc-message")).toBe("a%0D%0Agrpc-status: 0%0D%0A%25%C3%A9%00");
});

test("a caller's header cannot add another header at the CA", async () => {
  const { call, heard } = await startForwarding((socket) => socket.write(granted));
  await call(grpcFrame(message), { clusterid: "caf\u00e9" }).catch(() => {});
  for (const text of heard) expect(text.match(/\r\n\r\n/g)).toHaveLength(1);
});
