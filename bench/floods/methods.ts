import type { ClientHttp2Session, ClientHttp2Stream } from "node:http2";
import { connect as connectTcp } from "node:net";
import { text } from "node:stream/consumers";
import { create, type JsonObject, toBinary } from "@bufbuild/protobuf";
import { IstioCertificateRequestSchema } from "../../src/gen/istio/v1/auth/ca_pb.ts";
import { credentialOf, issuers } from "./forged-token.ts";
import {
  dataFrame,
  headersFrame,
  hugeWindow,
  pingFrame,
  preface,
  settingsFrame,
} from "./frames.ts";
import { openTls } from "./tls-socket.ts";
import {
  framing,
  fromEach,
  holding,
  ignore,
  type Method,
  openHttp2,
  several,
  streaming,
  tick,
  times,
} from "./ways.ts";

/** Strangers at several addresses of one network, none of which an honest caller has. */
const addresses = Array.from({ length: 8 }, (_, i) => `127.0.0.${11 + i}`);
const twoAddresses = ["127.1.0.1", "127.2.0.1"];
/** Strangers of several networks. */
const networks = Array.from({ length: 4 }, (_, i) => `127.${i + 1}.0.1`);
const watch = "/grpc.health.v1.Health/Watch";
const createCertificate = "/istio.v1.auth.IstioCertificateService/CreateCertificate";
const grpc = { ":method": "POST", "content-type": "application/grpc", te: "trailers" };
const emptyMessage = Buffer.alloc(5);

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

/** Writes to each of many sockets of HTTP/1.1 as much as it takes, and reads nothing. */
function filling(count: number, head: string, more: string): Method {
  return holding(count, (target) => {
    const socket = openTls(target, "http/1.1");
    socket.write(head);
    const fill = setInterval(() => socket.writableNeedDrain || socket.write(more), 5);
    socket.once("close", () => clearInterval(fill));
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

const headWith = (length: string): string =>
  `POST ${createCertificate} HTTP/1.1\r\nhost: a\r\ncontent-type: application/proto\r\n${length}\r\n\r\n`;
const headOfHttp1Call = headWith("content-length: 60000");

/** One connection for each request: HTTP/1.1 answers them one after the other. */
function bodiless(count: number): Method {
  const one = holding(count, (target) => {
    const socket = openTls(target, "http/1.1");
    socket.write(headOfHttp1Call);
    return socket;
  });
  return fromEach(addresses)(one);
}

const rapidReset = (round: number): Buffer =>
  Buffer.concat(
    Array.from({ length: 100 }, (_, i) => headersFrame(2 * (round * 100 + i) + 1, { reset: true })),
  );

function begun(session: ClientHttp2Session, path: string, credential?: string): ClientHttp2Stream {
  const stream = session.request(post(path, credential));
  stream.resume();
  stream.end(emptyMessage);
  return stream;
}

/** Calls with a token of this issuer that it never signed. */
const forging = (issuer: string) => (session: ClientHttp2Session) =>
  begun(session, createCertificate, credentialOf(issuer));

/** JSON that a parser blows up to twenty times its octets, from a caller whose own token the CA accepts. */
const denseBody = Buffer.from(
  `{"csr":"x","metadata":{"a":[${Array<string>(21_000).fill("{}").join()}]}}`,
);

/** The same in protobuf, below a frame's bound of 64 KiB. */
const denseMessage = toBinary(
  IstioCertificateRequestSchema,
  create(IstioCertificateRequestSchema, { metadata: { a: Array<JsonObject>(15_000).fill({}) } }),
);

const posting =
  (type: string, body: Uint8Array) =>
  (session: ClientHttp2Session): ClientHttp2Stream => {
    const stream = session.request({
      ":method": "POST",
      ":path": createCertificate,
      "content-type": type,
      authorization: `Bearer ${process.env["FLOOD_TOKEN"]}`,
    });
    stream.resume();
    stream.end(body);
    return stream;
  };

/** Connections of two networks. */
const sixteen: Parameters<typeof streaming>[3] = (one) => fromEach(twoAddresses)(times(8)(one));

/** Reads nothing of any answer. */
const unread = (path: string): Method =>
  streaming(1000, (session) => session.request({ ":path": path }), { initialWindowSize: 0 });

/** The newest tile of a public log. Its path has the size of the log, the second line of the checkpoint. */
const unreadTiles: Method = async (target, signal) => {
  const session = openHttp2(target);
  const checkpoint = await text(session.request({ ":path": "/log/0/checkpoint" }));
  session.destroy();
  await unread(`/log/0/tile/0/000.p/${checkpoint.split("\n")[1]}`)(target, signal);
};

/** Promises to read everything, and reads nothing from the socket. */
const unreadOfHugeWindow = (path: string): Method =>
  holding(100, (target) => {
    const socket = openTls(target);
    socket.once("secureConnect", () => {
      const heads = Array.from({ length: 100 }, (_, i) =>
        headersFrame(2 * i + 1, { path, isWhole: true }),
      );
      socket.write(Buffer.concat([preface, hugeWindow, ...heads]));
      socket.pause();
    });
    return socket;
  });

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
  ["answers with a window of 0", unread("/bundle.pem")],
  ["CRLs with a window of 0", unread("/crl.pem")],
  ["CRLs with a window of 2^31", unreadOfHugeWindow("/crl.pem")],
  ["tiles with a window of 0", unreadTiles],
  ["metrics with a window of 0", unread("/metrics")],
  ["pages with a window of 0", unread("/")],
  [
    "requests that never end",
    streaming(20_000, (session) => session.request(post(createCertificate))),
  ],
  [
    "calls without a good credential",
    streaming(100, (session) => begun(session, createCertificate)),
  ],
  ["forged tokens", streaming(100, forging(issuers.known), {}, times(20))],
  ["a hostile API server", streaming(100, forging(issuers.hostile))],
  ["tokens of a silent issuer", streaming(100, forging(issuers.silent))],
  [
    "2,000 streams of four networks",
    streaming(100, forging(issuers.known), {}, (one) => fromEach(networks)(times(20)(one))),
  ],
  ["dense bodies", streaming(32, posting("application/json", denseBody), {}, sixteen)],
  ["dense messages", streaming(32, posting("application/proto", denseMessage), {}, sixteen)],
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
    streaming(100, (session) => session.request(post(createCertificate)), {}, fromEach(addresses)),
  ],
  ["HTTP/1.1 bodies that never come", bodiless(50)],
  [
    "HTTP/1.1 chunks of one octet",
    filling(200, headWith("transfer-encoding: chunked"), "1\r\na\r\n".repeat(2000)),
  ],
  [
    "HTTP/1.1 requests in a row",
    filling(200, "", "GET /bundle.pem HTTP/1.1\r\nhost: a\r\n\r\n".repeat(500)),
  ],
]);
