import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { expect, onTestFinished, test } from "vitest";
import { type Connection, Connections } from "../../../src/node/limits/connections.ts";
import { createGuard } from "../../../src/node/limits/guard.ts";
import { type Limit, usualLimits } from "../../../src/node/limits/limits.ts";
import {
  getRoot,
  openFrames,
  ping,
  pingAnswer,
  reset,
  settings,
} from "../../testkit/network/http2-frames.ts";
import { openPort } from "../../testkit/network/plaintext-port.ts";
import { endOf, openSocket } from "./limited-ca.ts";

/** Counts the requests that become streams. */
class CountingConnections extends Connections {
  begun = 0;

  override begin(connection: Connection): void {
    this.begun++;
    super.begin(connection);
  }
}

async function start() {
  const reached: Limit[] = [];
  const note = (limit: Limit) => reached.push(limit);
  const guard = createGuard(usualLimits, note);
  const connections = new CountingConnections(usualLimits, note, guard.clock);
  const { port } = await openPort({}, { ...guard, connections });
  return { port, connections, reached };
}

const requestAndReset = (stream: number): Buffer =>
  Buffer.concat([getRoot(stream), reset(stream, 8)]);

const many = (count: number, nth: (i: number) => Buffer): Buffer =>
  Buffer.concat(Array.from({ length: count }, (_, i) => nth(i)));

test("of a thousand requests and resets in one piece, few become streams before the connection is cut", async () => {
  const { port, connections, reached } = await start();
  const socket = await openFrames(port);
  socket.write(many(1000, (i) => requestAndReset(2 * i + 1)));
  await endOf(socket);
  expect(reached).toEqual(["abuse"]);
  expect(connections.begun).toBeLessThan(400);
});

test.each([
  ["pings", ping],
  ["settings", settings],
])(
  "hundreds of %s in one piece end a connection, and its address is turned away",
  async (_, each) => {
    const { port, reached } = await start();
    const socket = await openFrames(port);
    socket.write(many(300, () => each));
    await endOf(socket);
    expect(reached).toEqual(["abuse"]);
    const next = openSocket(port);
    next.resume();
    await endOf(next);
  },
);

test.each([
  ["", ""],
  [" whose expectation nobody meets", "expect: a\r\n"],
])(
  "of hundreds of requests of HTTP/1.1 in one piece%s, few begin before the connection is cut",
  async (_, field) => {
    const { port, connections, reached } = await start();
    let parsed = 0;
    const count = () => void parsed++;
    subscribe("http.server.request.start", count);
    onTestFinished(() => void unsubscribe("http.server.request.start", count));
    const socket = openSocket(port);
    socket.write(`GET / HTTP/1.1\r\nhost: a\r\n${field}\r\n`.repeat(300));
    socket.resume();
    await endOf(socket);
    expect(reached).toEqual(["abuse"]);
    expect(connections.begun).toBeLessThan(20);
    expect(parsed).toBeLessThan(20);
  },
  10_000,
);

test("thousands of chunks of one octet end a connection of HTTP/1.1", async () => {
  const { port, reached } = await start();
  const socket = openSocket(port);
  const head = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
  socket.write(head + "1\r\na\r\n".repeat(3000));
  socket.resume();
  await endOf(socket);
  expect(reached).toEqual(["abuse"]);
}, 10_000);

test("a dozen requests of HTTP/1.1 in one piece are answered", async () => {
  const { port, reached } = await start();
  const socket = openSocket(port);
  const request = (fields: string) => `GET / HTTP/1.1\r\nhost: a\r\n${fields}\r\n`;
  socket.write(request("").repeat(11) + request("connection: close\r\n"));
  let answers = "";
  socket.on("data", (chunk: Buffer) => {
    answers += chunk.toString();
  });
  await endOf(socket);
  expect(answers.split("HTTP/1.1 200 OK").length - 1).toBe(12);
  expect(reached).toEqual([]);
});

test("dozens of resets, pings and settings do not end a connection", async () => {
  const { port, reached } = await start();
  const socket = await openFrames(port);
  let answered = 0;
  const allAnswered = new Promise<void>((resolve) => {
    socket.on("data", (chunk: Buffer) => {
      answered += chunk.toString("latin1").split(pingAnswer).length - 1;
      if (answered === 36) resolve();
    });
  });
  socket.write(many(36, (i) => Buffer.concat([requestAndReset(2 * i + 1), ping, settings])));
  await allAnswered;
  expect(reached).toEqual([]);
});
