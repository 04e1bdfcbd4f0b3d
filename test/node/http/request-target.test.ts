import { once } from "node:events";
import { request as httpRequest } from "node:http";
import { connect } from "node:http2";
import { expect, onTestFinished, test } from "vitest";
import { openPort } from "../../testkit/network/plaintext-port.ts";

/** The status of the answer; nothing where the stream ends without one. */
function overHttp2(port: number, method: string, path = "/healthz"): Promise<unknown> {
  const session = connect(`http://127.0.0.1:${port}`);
  onTestFinished(() => session.destroy());
  const stream = session.request({ ":method": method, ":path": path });
  return new Promise((resolve) => {
    stream.on("response", (headers) => resolve(headers[":status"]));
    stream.on("error", () => {});
    stream.on("close", () => resolve(undefined));
    stream.resume().end();
  });
}

function overHttp1(port: number, method: string, path = "/healthz"): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const outgoing = httpRequest({ port, method, path, agent: false }, (incoming) =>
      resolve(incoming.resume().statusCode),
    );
    outgoing.on("error", reject);
    outgoing.end();
  });
}

const versions = [
  ["HTTP/1.1", overHttp1],
  ["HTTP/2", overHttp2],
] as const;

test.each(versions)(
  "a method over %s that fetch does not know gets status 400",
  async (_, send) => {
    const { port, log } = await openPort({});
    expect(await send(port, "TRACE")).toBe(400);
    expect(await send(port, "GET")).toBe(200);
    expect(log.operations).toEqual([]);
  },
);

test.each(versions)("a path over %s with another spelling is not found", async (_, send) => {
  const { port } = await openPort({});
  for (const path of ["/x/../healthz", "/./healthz", "/x/%2e%2E/healthz", "/x\\..\\healthz"])
    expect([path, await send(port, "GET", path)]).toEqual([path, 404]);
  expect(await send(port, "GET", "/healthz?x=/../%2e")).toBe(200);
});

/** A site that holds every answer until its caller hangs up. */
async function startHoldingSite() {
  const begun = Promise.withResolvers<void>();
  const hungUp = Promise.withResolvers<void>();
  const { port } = await openPort({
    fetch: async ({ signal }) => {
      begun.resolve();
      await once(signal, "abort");
      hungUp.resolve();
      return new Response("too late");
    },
  });
  return { origin: `http://127.0.0.1:${port}`, begun: begun.promise, hungUp: hungUp.promise };
}

test("the signal of an HTTP/1.1 request aborts when its caller hangs up", async () => {
  const { origin, begun, hungUp } = await startHoldingSite();
  const outgoing = httpRequest(origin).on("error", () => {});
  outgoing.end();
  await begun;
  outgoing.destroy();
  await hungUp;
});

test("the signal of an HTTP/2 request aborts when its stream is reset", async () => {
  const { origin, begun, hungUp } = await startHoldingSite();
  const session = connect(origin);
  onTestFinished(() => session.destroy());
  const stream = session.request({ ":path": "/" }).on("error", () => {});
  await begun;
  stream.close();
  await hungUp;
});
