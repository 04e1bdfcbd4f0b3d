import type { Socket } from "node:net";
import { gzipSync } from "node:zlib";
import { describe, expect, onTestFinished, test } from "vitest";
import { FetchError, ResponseBody } from "../../../src/foundation/fetch.ts";
import { HttpClient, NodeFetch, parseTarget } from "../../../src/program/http/http-client.ts";
import { type RawAnswer, startRawServer } from "../../testkit/network/raw-server.ts";

const timeoutMilliseconds = 400;
const maximumOctets = 256 * 1024;

const ok = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
const chunked = `${ok}transfer-encoding: chunked\r\n\r\n`;

const saying =
  (text: string | Uint8Array): RawAnswer =>
  (socket) =>
    void socket.write(text);

/** Sends this once, and then that as fast as it is taken. */
const endlessly =
  (head: string, more: string): RawAnswer =>
  (socket) => {
    const text = more.repeat(Math.ceil(65_536 / more.length));
    socket.write(head);
    const write = (): void => {
      while (!socket.destroyed && socket.write(text));
      socket.once("drain", write);
    };
    write();
  };

const dripping =
  (head: string, drop: string): RawAnswer =>
  (socket) => {
    socket.write(head);
    const timer = setInterval(() => socket.write(drop), 20);
    socket.once("close", () => clearInterval(timer));
  };

const then =
  (text: string, act: (socket: Socket) => void): RawAnswer =>
  (socket) =>
    void socket.write(text, () => setImmediate(() => act(socket)));

const bomb = gzipSync(Buffer.alloc(50_000_000, " "));

const hostile: readonly [string, RawAnswer][] = [
  ["says nothing", () => {}],
  ["encodes six times over and never ends", saying(encoded("gzip, gzip, gzip, gzip, gzip, gzip"))],
  ["encodes in a way of its own", saying(encoded("rampart"))],
  [
    "sends a bomb",
    (socket) => {
      socket.write(`${ok}content-encoding: gzip\r\ncontent-length: ${bomb.length}\r\n\r\n`);
      socket.write(bomb);
    },
  ],
  ["sends fields for ever", endlessly(ok, "x: y\r\n")],
  ["drips its fields", dripping(ok, "x: y\r\n")],
  ["sends a body for ever", endlessly(`${ok}\r\n`, " ")],
  ["sends chunks for ever", endlessly(chunked, "1\r\n \r\n")],
  ["drips its body", dripping(`${ok}\r\n`, " ")],
  ["extends one chunk for ever", endlessly(`${chunked}2;`, "x=y;")],
  ["sends trailers for ever", endlessly(`${chunked}2\r\n{}\r\n0\r\n`, "x: y\r\n")],
  ["sends early hints for ever", endlessly("", "HTTP/1.1 103 Early Hints\r\n\r\n")],
  ["says to continue for ever", endlessly("", "HTTP/1.1 100 Continue\r\n\r\n")],
  ["processes for ever", dripping("", "HTTP/1.1 102 Processing\r\n\r\n")],
  [
    "switches protocols",
    saying("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n"),
  ],
  ["speaks another protocol", saying("220 smtp.example ESMTP\r\n")],
  ["promises more than it sends", saying(`${ok}content-length: 9999999\r\n\r\n{`)],
  ["names two lengths", saying(`${ok}content-length: 2\r\ncontent-length: 3\r\n\r\n{} `)],
  ["names a negative length", saying(`${ok}content-length: -2\r\n\r\n{}`)],
  ["hangs up", (socket) => void socket.end()],
  ["resets the connection", (socket) => void socket.resetAndDestroy()],
  ["resets amid its head", then(ok, (socket) => socket.resetAndDestroy())],
  ["hangs up amid its body", then(`${chunked}5\r\n{`, (socket) => socket.end())],
];

function encoded(encoding: string): string {
  return `${ok}content-encoding: ${encoding}\r\ntransfer-encoding: chunked\r\n\r\n5\r\nabcde\r\n`;
}

/** Asks as most of the code does: by `fetch`, for JSON, in time. */
async function fetchFrom(url: string): Promise<unknown> {
  const signal = AbortSignal.timeout(timeoutMilliseconds);
  const response = await NodeFetch.trusting(undefined)(url, { signal });
  return ResponseBody.readJson(response);
}

async function sendTo(url: string): Promise<unknown> {
  const client = new HttpClient({}, 1);
  onTestFinished(client.close);
  const request = { target: parseTarget(url), method: "GET", headers: {}, timeoutMilliseconds };
  return client.send(request, maximumOctets);
}

async function allClosed(sockets: Iterable<Socket>): Promise<void> {
  const open = [...sockets].filter(({ closed }) => !closed);
  // `once` of node:events would reject when the client resets the connection.
  await Promise.all(open.map((socket) => new Promise((resolve) => socket.once("close", resolve))));
}

describe("the client rejects in time, and closes the connection, if a server", () => {
  test.each(hostile)("%s", async (_, answer) => {
    const server = await startRawServer(answer);
    const outcomes = await Promise.allSettled([fetchFrom(server.url), sendTo(server.url)]);
    const reasons = outcomes.map((each) => each.status === "rejected" && each.reason);
    expect(reasons).toEqual([expect.any(Error), expect.any(FetchError)]);
    // On a slow machine the time may be up before the server has heard of anything.
    expect(server.heard.length).toBeLessThanOrEqual(2);
    await allClosed(server.sockets);
  });
});
