import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { connect as connectHttp2 } from "node:http2";
import { connect } from "node:net";
import { afterEach, beforeEach, expect, test } from "vitest";
import { ConfigurationError } from "../../../src/foundation/errors.ts";
import { type HttpCa, startHttpCa } from "../../testkit/agent/http-ca.ts";
import { runAgent } from "../../testkit/agent/running-agent.ts";
import { SdsStream } from "../../testkit/agent/sds-client.ts";

let ca: HttpCa;
beforeEach(async () => {
  // Its only root is looked at.
  ca = await startHttpCa({}, {}, true);
});
afterEach(() => ca.close());

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

const isCall = ({ url }: IncomingMessage): boolean => url?.includes("CreateCertificate") ?? false;

/** Answers calls of CreateCertificate, and every other request with 404. */
const toCalls =
  (answer: Answer): Answer =>
  (request, response) =>
    isCall(request) ? answer(request, response) : response.writeHead(404).end();

const json = (status: number, body: unknown): Answer =>
  toCalls((_request, response) => {
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
  });

test.each<[string, Answer, object]>([
  [
    "refuses",
    json(401, { code: "unauthenticated", message: "no" }),
    { fault: "authority-refused" },
  ],
  [
    "answers without end",
    toCalls((_q, r) => {
      r.writeHead(200, { "content-type": "application/proto" });
      // More than the largest answer that the agent reads.
      for (let i = 0; i < 20; i++) r.write(Buffer.alloc(100_000, 0x0a));
    }),
    { fault: "authority-unreachable", detail: expect.stringContaining("resource_exhausted") },
  ],
])("survives a CA that %s, and recovers by itself", async (_name, answer, failure) => {
  ca.intercept = answer;
  const { event, sdsSocket, agent } = await runAgent(ca);
  expect(await event("renewal-failed")).toMatchObject(failure);
  expect(agent.status().isReady).toBe(false);
  ca.intercept = undefined;
  await event("certificate-obtained");
  const stream = new SdsStream(sdsSocket);
  stream.subscribe("default");
  expect(await stream.secrets()).toHaveLength(1);
});

test("survives a CA that is unreachable at the start", async () => {
  await ca.pause();
  const { event } = await runAgent(ca);
  await event("renewal-failed");
  await ca.resume();
  await event("certificate-obtained");
});

test("refuses a certificate for another identity", async () => {
  const { event } = await runAgent(ca, { SERVICE_ACCOUNT: "somebody-else" });
  expect(await event("renewal-failed")).toMatchObject({ fault: "identity-mismatch" });
});

test("renews when its authority is tainted, and no longer trusts the root", async () => {
  const { agent, event } = await runAgent(ca, { RAMPART_BUNDLE_REFRESH: "1s" });
  await event("bundle-read");
  await event("certificate-obtained");
  const [before] = agent.status().roots;
  await ca.taint("immediately");
  await event("certificate-obtained", 2);
  const { roots } = agent.status();
  expect(roots).toHaveLength(1);
  expect(roots[0]?.sha256).not.toBe(before?.sha256);
});

test("serves its cached certificate while the CA is unreachable", async () => {
  const variables = { RAMPART_CACHE: `${await ca.tokenFile("foo:bar")}-cache` };
  const first = await runAgent(ca, variables);
  const { serial } = await first.event("certificate-obtained");
  await first.agent.close();
  await ca.pause();
  const second = await runAgent(ca, variables);
  expect(await second.event("certificate-recalled")).toMatchObject({ serial });
  expect(second.agent.status()).toMatchObject({ isReady: true, roots: [{}] });
});

test("does not start on the socket of a live agent, and does not disturb it", async () => {
  const { sdsSocket } = await runAgent(ca);
  await expect(runAgent(ca, { RAMPART_SDS_SOCKET: sdsSocket })).rejects.toThrow(ConfigurationError);
  const stream = new SdsStream(sdsSocket);
  stream.subscribe("default");
  expect(await stream.secrets()).toHaveLength(1);
});

test("does not start if its status address is taken, and leaves no socket", async () => {
  const { agent, folder } = await runAgent(ca);
  const variables = {
    RAMPART_STATUS_ADDR: new URL(agent.statusUrl).host,
    RAMPART_SDS_SOCKET: `${folder}/other-sds`,
  };
  await expect(runAgent(ca, variables)).rejects.toThrow(ConfigurationError);
  await expect(once(connect(variables.RAMPART_SDS_SOCKET), "connect")).rejects.toThrow("ENOENT");
});

test("survives clients that send garbage", async () => {
  const { sdsSocket } = await runAgent(ca);
  const garbage = connect(sdsSocket);
  garbage.on("error", () => undefined);
  garbage.resume().end("GET / HTTP/1.1\r\n\r\n");
  await new Promise((resolve) => garbage.on("close", resolve));
  const session = connectHttp2("http://agent", { createConnection: () => connect(sdsSocket) });
  session.on("error", () => undefined);
  for (const path of ["//", "/nothing", "*"]) {
    const stream = session.request({ ":method": "POST", ":path": path, ":authority": "%%" });
    stream.on("error", () => undefined);
    stream.resume().end();
    await new Promise((resolve) => stream.on("close", resolve));
  }
  session.destroy();
  const stream = new SdsStream(sdsSocket);
  stream.subscribe("default");
  expect(await stream.secrets()).toHaveLength(1);
});

test("survives a client that floods and never reads", async () => {
  const { sdsSocket, agent } = await runAgent(ca);
  const session = connectHttp2("http://agent", { createConnection: () => connect(sdsSocket) });
  const stream = session.request({
    ":method": "POST",
    ":path": "/envoy.service.secret.v3.SecretDiscoveryService/StreamSecrets",
    "content-type": "application/grpc+proto",
    te: "trailers",
  });
  stream.on("error", () => undefined);
  stream.pause();
  // A request with the node "e" and the name "default", without a nonce.
  const message = Buffer.from("12030a01651a0764656661756c74", "hex");
  const frame = Buffer.concat([Buffer.from([0, 0, 0, 0, message.length]), message]);
  const flood = Buffer.concat(Array.from({ length: 2_000 }, () => frame));
  for (let i = 0; i < 20; i++) stream.write(flood);
  const other = new SdsStream(sdsSocket);
  other.subscribe("default");
  expect(await other.secrets()).toHaveLength(1);
  session.destroy();
  expect(agent.status().isReady).toBe(true);
});
