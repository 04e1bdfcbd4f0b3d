import { once } from "node:events";
import { request as httpRequest } from "node:http";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { listenInPlaintext } from "../../../src/node/http/listener.ts";
import { origin } from "../../contract/service-under-test.ts";
import { type ServedCa, serveCa, servedName } from "../../testkit/ca/served-ca.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { connectHttp2 } from "../../testkit/network/http2-client.ts";
import { hangMilliseconds } from "../../testkit/time/hang-limit.ts";

describe("a server that ends", () => {
  let served: ServedCa;
  let [etag, crlEtag]: string[] = [];

  beforeEach(async () => {
    served = await serveCa({
      ISSUERS: [{ issuer: "https://a.test" }],
      PLAINTEXT_LISTEN: "127.0.0.1:0",
      CRL: "on",
      // A long poll that held a turn would keep all other requests waiting.
      LIMITS: { requests_at_work: 1, requests_at_work_per_address: 1 },
    });
    [etag, crlEtag] = await Promise.all(["bundle.json", "crl.pem"].map(etagOf));
  });

  const etagOf = async (path: string): Promise<string> => {
    const response = await fetch(`http://127.0.0.1:${served.monitoringPort}/${path}`);
    await response.text();
    return response.headers.get("etag") ?? "";
  };
  const headers = (tag = etag) => ({ "if-none-match": tag ?? "", prefer: "wait=300" });
  const seen = ({ status, headers }: Response) => [status, headers.get("preference-applied")];

  test("answers held requests for another bundle or CRL at once, over HTTP/1.1 and HTTP/2", async () => {
    const client = connectHttp2(`https://127.0.0.1:${served.port}`, {
      ca: await served.bundle(),
      servername: servedName,
    });
    onTestFinished(() => client.session.destroy());
    await once(client.session, "remoteSettings");
    const plaintext = `http://127.0.0.1:${served.server.plaintextAddress?.port}`;
    const answers = [
      client.send(new Request(`${origin}/bundle.pem`, { headers: headers() })),
      client.send(new Request(`${origin}/bundle.json`, { headers: headers() })),
      fetch(`${plaintext}/bundle.json`, { headers: headers() }),
      fetch(`${plaintext}/crl.pem`, { headers: headers(crlEtag) }),
    ];
    // The one of /bundle.pem has another tag, and is answered: the others have arrived by then.
    expect((await answers[0])?.status).toBe(200);
    await fetch(`${plaintext}/healthz`);
    await served.server.close(hangMilliseconds);
    expect((await Promise.all(answers.slice(1))).map(seen)).toEqual([
      [304, "wait=50"],
      [304, "wait=50"],
      [304, "wait=50"],
    ]);
  });

  test("does not wait for callers that hung up", async () => {
    const plaintext = `http://127.0.0.1:${served.server.plaintextAddress?.port}`;
    const caller = new AbortController();
    const { signal } = caller;
    const answer = fetch(`${plaintext}/bundle.json`, { headers: headers(), signal });
    await fetch(`${plaintext}/healthz`);
    caller.abort();
    await expect(answer).rejects.toThrow();
    await served.server.close(hangMilliseconds);
  });
});

/** A site that holds every answer until its caller hangs up. */
async function startHoldingSite() {
  const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
  const { promise: hungUp, resolve: hangUp } = Promise.withResolvers<void>();
  const listener = await listenInPlaintext(
    {
      rpcs: new Map(),
      fetch: async ({ signal }) => {
        begin();
        await once(signal, "abort");
        hangUp();
        return new Response("too late");
      },
      log: createEventRecorder(),
    },
    { host: "127.0.0.1", port: 0 },
  );
  onTestFinished(() => listener.close(0));
  return { origin: `http://127.0.0.1:${listener.address.port}`, begun, hungUp };
}

test("the signal of an HTTP/1.1 request aborts when its caller hangs up", async () => {
  const routes = await startHoldingSite();
  const outgoing = httpRequest(`${routes.origin}/`).on("error", () => {});
  outgoing.end();
  await routes.begun;
  outgoing.destroy();
  await routes.hungUp;
});

test("the signal of an HTTP/2 request aborts when its stream is reset", async () => {
  const routes = await startHoldingSite();
  const client = connectHttp2(routes.origin);
  onTestFinished(() => client.session.destroy());
  const stream = client.session.request({ ":path": "/" }).on("error", () => {});
  await routes.begun;
  stream.close();
  await routes.hungUp;
});
