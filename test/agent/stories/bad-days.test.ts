import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { connect as connectHttp2 } from "node:http2";
import { connect } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ConfigurationError } from "../../../src/foundation/errors.ts";
import { type HttpCa, startHttpCa } from "../../testkit/agent/http-ca.ts";
import { runAgent } from "../../testkit/agent/running-agent.ts";
import { SdsStream } from "../../testkit/agent/sds-client.ts";

let ca: HttpCa;
beforeAll(async () => {
  ca = await startHttpCa();
});
afterAll(() => ca.close());

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

const isCall = ({ url }: IncomingMessage): boolean => url?.includes("CreateCertificate") ?? false;

/** Answers calls of CreateCertificate, and every other request with 404. */
const toCalls =
  (answer: Answer): Answer =>
  (request, response) =>
    isCall(request) ? answer(request, response) : response.writeHead(404).end();

test("survives a CA that answers without end, and recovers by itself", async () => {
  ca.intercept = toCalls((_request, response) => {
    response.writeHead(200, { "content-type": "application/proto" });
    // More than the largest answer that the agent reads.
    for (let i = 0; i < 20; i++) response.write(Buffer.alloc(100_000, 0x0a));
  });
  const { event, sdsSocket, agent } = await runAgent(ca);
  expect(await event("renewal-failed")).toMatchObject({
    fault: "authority-unreachable",
    detail: expect.stringContaining("resource_exhausted"),
  });
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
