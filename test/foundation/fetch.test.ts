import type { OutgoingHttpHeaders, RequestListener, ServerResponse } from "node:http";
import { describe, expect, test } from "vitest";
import { type Fetch, FetchError, JsonFetch } from "../../src/foundation/fetch.ts";
import { NodeFetch } from "../../src/program/http/http-client.ts";
import { startLoopbackServer } from "../testkit/network/loopback-server.ts";
import { hangMilliseconds } from "../testkit/time/hang-limit.ts";

const fetchJson = JsonFetch.create(NodeFetch.trusting(undefined), hangMilliseconds);

const answering =
  (status: number, body: string | Uint8Array, headers: OutgoingHttpHeaders = {}) =>
  (_: unknown, response: ServerResponse) => {
    response.writeHead(status, headers).end(body);
  };

const sendForever = (response: ServerResponse, chunk: string): void => {
  const more = (): void => {
    while (!response.destroyed && response.write(chunk));
    response.once("drain", more);
  };
  more();
};

const cutOff = (response: ServerResponse, headers: OutgoingHttpHeaders): void => {
  response.writeHead(200, headers).write("{}", () => response.destroy());
};

const drip = (response: ServerResponse): void => {
  const timer = setInterval(() => response.write(" "), 50);
  response.once("close", () => clearInterval(timer));
};

async function fetchFrom(listener: RequestListener, path = "/"): Promise<unknown> {
  const { origin } = await startLoopbackServer(listener);
  return fetchJson(`${origin}${path}`);
}

describe("a JSON document", () => {
  test("is fetched whatever its content type", async () => {
    expect(await fetchFrom(answering(200, '{"a":1}'))).toEqual({ a: 1 });
    const html = { "content-type": "text/html" };
    expect(await fetchFrom(answering(200, "[1]", html))).toEqual([1]);
  });

  test("is fetched in pieces that cut a character in two", async () => {
    const octets = new TextEncoder().encode('{"a":"é"}');
    const json = await fetchFrom((_, response) => {
      response.write(octets.subarray(0, 7), () => response.end(octets.subarray(7)));
    });
    expect(json).toEqual({ a: "é" });
  });

  test("is fetched up to 256 KiB", async () => {
    const text = JSON.stringify("a".repeat(256 * 1024 - 2));
    expect(await fetchFrom(answering(200, text))).toHaveLength(256 * 1024 - 2);
  });
});

describe("refuses an answer", () => {
  const refused: readonly [string, RequestListener][] = [
    ["with status 404", answering(404, '{"a":1}')],
    ["with status 204", answering(204, "")],
    ["with status 203", answering(203, '{"a":1}')],
    ["that is empty", answering(200, "")],
    ["that ends early", answering(200, '{"a":')],
    ["that is not UTF-8", answering(200, new Uint8Array([0x22, 0xff, 0x22]))],
    ["with half a character after it", answering(200, new Uint8Array([0x31, 0xe2]))],
    ["one octet too long", answering(200, `"${"a".repeat(256 * 1024 - 1)}"`)],
    ["that never ends", (_, response) => sendForever(response, " ".repeat(65_536))],
    [
      "that comes octet by octet",
      // Node's own server would make one chunk of what is written at once.
      ({ socket }) => {
        const head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        socket.end(`${head}${"1\r\n1\r\n".repeat(400)}0\r\n\r\n`);
      },
    ],
    ["that is no answer", (request) => void request.socket.destroy()],
    [
      "that is compressed though nobody asked",
      answering(200, "{}", { "content-encoding": "gzip" }),
    ],
  ];

  test.each(refused)("%s", async (_, listener) => {
    await expect(fetchFrom(listener)).rejects.toBeInstanceOf(FetchError);
  });

  test.each<[string, RequestListener, RegExp]>([
    ["that is cut off", (_, response) => cutOff(response, {}), /^broke off its answer \([^)]*\)$/],
    ["in another encoding", answering(200, Uint8Array.of(0xff)), /^did not answer JSON in UTF-8 /],
  ])("%s, and says why", async (_, listener, sentence) => {
    await expect(fetchFrom(listener)).rejects.toThrow(sentence);
  });

  // The first follows none whatever it is asked, the second as many as it may.
  const fetches: readonly [string, Fetch][] = [
    ["the client of Node's programs", NodeFetch.trusting(undefined)],
    ["a platform's own fetch, as of a Worker", fetch],
  ];

  test.each(fetches)("that redirects elsewhere, by %s", async (_, own) => {
    const { origin, requests } = await startLoopbackServer(answering(200, '{"a":1}'));
    for (const status of [301, 302, 303, 307, 308]) {
      const redirect = answering(status, "", { location: `${origin}/elsewhere` });
      const { origin: issuer } = await startLoopbackServer(redirect);
      const work = JsonFetch.create(own, hangMilliseconds)(`${issuer}/`);
      await expect(work).rejects.toMatchObject({ name: "FetchError", status });
    }
    expect(requests).toEqual([]);
  });

  test("of nobody", async () => {
    await expect(fetchJson("http://127.0.0.1:1/")).rejects.toBeInstanceOf(FetchError);
  });

  test("that does not come in time: no headers, no end, one octet at a time", async () => {
    const hanging: RequestListener[] = [
      () => {},
      (_, response) => void response.write("{"),
      (_, response) => drip(response),
    ];
    const hasty = JsonFetch.create(NodeFetch.trusting(undefined), 50);
    const servers = await Promise.all(hanging.map(startLoopbackServer));
    const outcomes = await Promise.allSettled(servers.map(({ origin }) => hasty(origin)));
    expect(outcomes.map((outcome) => outcome.status === "rejected" && outcome.reason)).toEqual([
      expect.any(FetchError),
      expect.any(FetchError),
      expect.any(FetchError),
    ]);
  });
});
