import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect as connectHttp2,
} from "node:http2";
import { connect as connectTcp, type Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import { dataFrame, headersFrame, pingFrame, preface, settingsFrame } from "./frames.ts";
import { openTls, type Target } from "./tls-socket.ts";

/** Floods until the signal aborts. Whatever the server does to it is no fault. */
type Method = (target: Target, signal: AbortSignal) => Promise<void>;

const connectionCount = 8;

/** Strangers at several addresses, none of which an honest caller has. */
const addresses = Array.from({ length: 8 }, (_, i) => `127.0.0.${11 + i}`);
const watch = "/grpc.health.v1.Health/Watch";
const reflection = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
const createCertificate = "/istio.v1.auth.IstioCertificateService/CreateCertificate";
const grpc = { ":method": "POST", "content-type": "application/grpc", te: "trailers" };
const emptyMessage = Buffer.alloc(5);

const tick = (milliseconds = 0): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, milliseconds));

const ignore = (): void => {};

/** Keeps as many sockets as it can, and opens another for each that ends. */
function holding(count: number, open: (target: Target) => Socket | ClientHttp2Session): Method {
  return async (target, signal) => {
    const held = new Set<Socket | ClientHttp2Session>();
    while (!signal.aborted) {
      for (let i = 0; i < 50 && held.size < count; i++) {
        const each = open(target);
        each.on("error", ignore);
        held.add(each);
        each.once("close", () => held.delete(each));
      }
      await tick(5);
    }
    for (const each of held) each.destroy();
  };
}

function openHttp2(target: Target, settings = {}): ClientHttp2Session {
  return connectHttp2(`https://127.0.0.1:${target.port}`, {
    rejectUnauthorized: false,
    settings,
    createConnection: () => openTls(target),
  });
}

/** Some connections, each with as many streams as it can have, opened again when they end. */
function streaming(
  streams: number,
  begin: (session: ClientHttp2Session) => ClientHttp2Stream,
  settings: object = {},
  together: Together = several,
): Method {
  const one: Method = async (target, signal) => {
    while (!signal.aborted) {
      const session = openHttp2(target, settings);
      session.on("error", ignore);
      let isOver = false;
      session.once("close", () => {
        isOver = true;
      });
      let open = 0;
      while (!isOver && !signal.aborted) {
        for (let i = 0; i < 50 && open < streams && !session.closed && !session.destroyed; i++) {
          open++;
          const stream = begin(session);
          stream.on("error", ignore);
          stream.once("close", () => void open--);
        }
        await tick(1);
      }
      session.destroy();
    }
  };
  return together(one);
}

/** How many of a method flood together. */
type Together = (one: Method) => Method;

const several: Together = (one) => async (target, signal) => {
  await Promise.all(Array.from({ length: connectionCount }, () => one(target, signal)));
};

const fromEachAddress: Together = (one) => async (target, signal) => {
  await Promise.all(addresses.map((localAddress) => one({ ...target, localAddress }, signal)));
};

/** Raw frames after the handshake, as fast as the socket takes them. */
function framing(chunk: (round: number) => Buffer): Method {
  const one: Method = async (target, signal) => {
    while (!signal.aborted) {
      const socket = openTls(target);
      socket.on("error", ignore);
      socket.resume();
      await new Promise<void>((resolve) => {
        socket.once("secureConnect", resolve);
        socket.once("close", () => resolve());
      });
      socket.write(Buffer.concat([preface, settingsFrame]));
      await pump(socket, chunk, signal);
      socket.destroy();
      await tick(5);
    }
  };
  return several(one);
}

async function pump(socket: TLSSocket, chunk: (round: number) => Buffer, signal: AbortSignal) {
  for (let round = 0; !socket.destroyed && !signal.aborted; round++) {
    const isTaken = socket.write(chunk(round));
    if (isTaken) await tick();
    else await Promise.race([new Promise((resolve) => socket.once("drain", resolve)), tick(100)]);
  }
}

const post = (path: string, authorization = "Bearer a.b.c") => ({
  ...grpc,
  ":path": path,
  authorization,
});

/** Writes a few octets each second on each of many sockets. */
function dripping(count: number, head: string): Method {
  return holding(count, (target) => {
    const socket = openTls(target, "http/1.1");
    socket.write(head);
    const drip = setInterval(() => socket.write("a"), 500);
    socket.once("close", () => clearInterval(drip));
    return socket;
  });
}

function churn(): Method {
  const one: Method = async (target, signal) => {
    while (!signal.aborted) {
      const socket = openTls(target);
      socket.on("error", ignore);
      await new Promise<void>((resolve) => {
        socket.once("secureConnect", () => resolve());
        socket.once("close", () => resolve());
      });
      socket.destroy();
      await tick();
    }
  };
  return several(one);
}

const headOfHttp1Call = `POST ${createCertificate} HTTP/1.1\r\nhost: a\r\ncontent-type: application/proto\r\ncontent-length: 60000\r\n\r\n`;

/** One connection for each request: HTTP/1.1 answers them one after the other. */
function bodiless(count: number): Method {
  const one = holding(count, (target) => {
    const socket = openTls(target, "http/1.1");
    socket.write(headOfHttp1Call);
    return socket;
  });
  return fromEachAddress(one);
}

const rapidReset = (round: number): Buffer =>
  Buffer.concat(
    Array.from({ length: 100 }, (_, i) => headersFrame(2 * (round * 100 + i) + 1, { reset: true })),
  );

function begun(session: ClientHttp2Session, path: string): ClientHttp2Stream {
  const stream = session.request(post(path));
  stream.resume();
  stream.end(emptyMessage);
  return stream;
}

function getBundle(session: ClientHttp2Session): ClientHttp2Stream {
  return session.request({ ":path": "/bundle.pem" });
}

/** Just below the bound of a request's head. */
const hugeHeaders = Object.fromEntries(
  Array.from({ length: 30 }, (_, i) => [`x-${i}`, String(i).repeat(500).slice(0, 1000)]),
);

function getWithHugeHeaders(session: ClientHttp2Session): ClientHttp2Stream {
  const stream = session.request({ ":path": "/bundle.pem", ...hugeHeaders });
  stream.resume();
  return stream;
}

function pollBundle(session: ClientHttp2Session): ClientHttp2Stream {
  const stream = session.request({
    ":path": "/bundle.pem",
    prefer: "wait=50",
    "if-none-match": "*",
  });
  stream.resume();
  return stream;
}

/** By the names that the table has. */
export const methods: ReadonlyMap<string, Method> = new Map([
  ["Health/Watch streams", streaming(1000, (session) => begun(session, watch))],
  ["reflection streams", streaming(1000, (session) => session.request(post(reflection)))],
  ["answers with a window of 0", streaming(1000, getBundle, { initialWindowSize: 0 })],
  [
    "requests that never end",
    streaming(20_000, (session) => session.request(post(createCertificate))),
  ],
  [
    "calls without a good credential",
    streaming(100, (session) => begun(session, createCertificate)),
  ],
  ["huge headers", streaming(1000, getWithHugeHeaders)],
  ["long polls", streaming(1000, pollBundle)],
  ["silent HTTP/2 connections", holding(13_900, (target) => openHttp2(target))],
  ["idle TLS connections", holding(4000, (target) => openTls(target))],
  [
    "handshakes that never end",
    holding(4000, (target) => connectTcp({ host: "127.0.0.1", ...target })),
  ],
  ["handshakes again and again", churn()],
  ["rapid resets", framing(rapidReset)],
  ["pings", framing(() => Buffer.concat(Array<Buffer>(500).fill(pingFrame)))],
  ["settings", framing(() => Buffer.concat(Array<Buffer>(500).fill(settingsFrame)))],
  [
    "headers without an end",
    framing((round) => headersFrame(1, { isContinued: true, isFirst: round === 0 })),
  ],
  [
    "empty DATA frames",
    framing((round) =>
      round === 0 ? headersFrame(1) : Buffer.concat(Array<Buffer>(500).fill(dataFrame(1))),
    ),
  ],
  ["HTTP/1.1 heads that drip", dripping(1000, "GET /bundle.pem HTTP/1.1\r\nhost: a\r\nx: ")],
  ["HTTP/1.1 bodies that drip", dripping(1000, headOfHttp1Call)],
  [
    "bodies that never come",
    streaming(100, (session) => session.request(post(createCertificate)), {}, fromEachAddress),
  ],
  ["HTTP/1.1 bodies that never come", bodiless(50)],
]);
