import { request as httpRequest } from "node:http";
import { connect } from "node:http2";
import { expect, onTestFinished, test } from "vitest";
import { listenInPlaintext } from "../../../src/node/http/listener.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";

async function startSite() {
  const log = createEventRecorder();
  const fetch = async () => new Response("ok\n");
  const routes = { rpcs: new Map(), fetch, log };
  const listener = await listenInPlaintext(routes, { host: "127.0.0.1", port: 0 });
  onTestFinished(() => listener.close(0));
  return { port: listener.address.port, log };
}

/** The status of the answer; nothing where the stream ends without one. */
function overHttp2(port: number, method: string): Promise<unknown> {
  const session = connect(`http://127.0.0.1:${port}`);
  onTestFinished(() => session.destroy());
  const stream = session.request({ ":method": method, ":path": "/healthz" });
  return new Promise((resolve) => {
    stream.on("response", (headers) => resolve(headers[":status"]));
    stream.on("error", () => {});
    stream.on("close", () => resolve(undefined));
    stream.resume().end();
  });
}

function overHttp1(port: number, method: string): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const outgoing = httpRequest({ port, method, path: "/healthz", agent: false }, (incoming) =>
      resolve(incoming.resume().statusCode),
    );
    outgoing.on("error", reject);
    outgoing.end();
  });
}

test.each([
  ["HTTP/1.1", overHttp1],
  ["HTTP/2", overHttp2],
])("a method over %s that fetch does not know gets status 400", async (_, send) => {
  const { port, log } = await startSite();
  expect(await send(port, "TRACE")).toBe(400);
  expect(await send(port, "GET")).toBe(200);
  expect(log.operations).toEqual([]);
});
