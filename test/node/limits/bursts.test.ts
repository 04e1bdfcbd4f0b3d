import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { listenInPlaintext } from "../../../src/node/http/listener.ts";
import { type Connection, Connections } from "../../../src/node/limits/connections.ts";
import { createGuard } from "../../../src/node/limits/guard.ts";
import { type Limit, usualLimits } from "../../../src/node/limits/limits.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";

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
  const routes = {
    rpcs: new Map(),
    fetch: async () => new Response("ok"),
    log: createEventRecorder(),
  };
  const host = "127.0.0.1";
  const listener = await listenInPlaintext(routes, { host, port: 0 }, { ...guard, connections });
  onTestFinished(async () => {
    guard.end();
    await listener.close(0);
  });
  return { port: listener.address.port, connections, reached };
}

/** A frame of HTTP/2 (RFC 9113 §4.1). */
function frame(type: number, flags: number, stream: number, payload: Buffer): Buffer {
  const head = Buffer.from([0, 0, payload.length, type, flags, 0, 0, 0, 0]);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

/** `GET https://a/`, and its reset. */
function requestAndReset(stream: number): Buffer {
  const head = frame(1, 5, stream, Buffer.from([0x82, 0x87, 0x84, 1, 1, 0x61]));
  return Buffer.concat([head, frame(3, 0, stream, Buffer.from([0, 0, 0, 8]))]);
}

const settings = frame(4, 0, 0, Buffer.alloc(0));
const ping = frame(6, 0, 0, Buffer.alloc(8));
const pingAnswer = "\0\0\x08\x06\x01\0\0\0\0";

/** An established connection of HTTP/2. */
async function open(port: number): Promise<Socket> {
  const socket = connect({ host: "127.0.0.1", port });
  onTestFinished(() => void socket.destroy());
  socket.on("error", () => {});
  socket.write(Buffer.concat([Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), settings]));
  await once(socket, "data");
  socket.resume();
  return socket;
}

const many = (count: number, nth: (i: number) => Buffer): Buffer =>
  Buffer.concat(Array.from({ length: count }, (_, i) => nth(i)));

/** The end of a connection, which may be a reset. */
async function endOf(socket: Socket): Promise<void> {
  if (!socket.destroyed) await once(socket, "close");
}

test("a thousand requests and their resets in one piece: few become streams before the connection is cut", async () => {
  const { port, connections, reached } = await start();
  const socket = await open(port);
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
    const socket = await open(port);
    socket.write(many(300, () => each));
    await endOf(socket);
    expect(reached).toEqual(["abuse"]);
    const next = connect({ host: "127.0.0.1", port }).on("error", () => {});
    next.resume();
    await endOf(next);
  },
);

test("dozens of each end nothing", async () => {
  const { port, reached } = await start();
  const socket = await open(port);
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
