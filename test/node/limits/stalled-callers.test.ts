import { once } from "node:events";
import { connect, constants } from "node:http2";
import type { TLSSocket } from "node:tls";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { createGuard } from "../../../src/node/limits/guard.ts";
import { type Limit, type Limits, usualLimits } from "../../../src/node/limits/limits.ts";
import { SharedOctets } from "../../../src/transport/http/shared-octets.ts";
import { apiCredentialName, rpcPath } from "../../contract/service-under-test.ts";
import { createTokenKey, mintAccountToken } from "../../testkit/callers/tokens.ts";
import {
  data,
  getRoot,
  openFrames,
  post,
  reset,
  writeAndPing,
} from "../../testkit/network/http2-frames.ts";
import { startLoopbackServer } from "../../testkit/network/loopback-server.ts";
import { openPort } from "../../testkit/network/plaintext-port.ts";
import { hangMilliseconds } from "../../testkit/time/hang-limit.ts";
import {
  codeOf,
  issueFor,
  limitsReached,
  openSession,
  openSocket,
  openTls,
  type Started,
  start,
} from "./limited-ca.ts";

/** Two strangers can take every turn. No request of theirs ends by itself within the time of a test. */
const limits = {
  requests_at_work: 4,
  requests_at_work_per_address: 2,
  progress_timeout: `${(100 * hangMilliseconds) / 1000}s`,
};

const longPatience = { timeout: hangMilliseconds };
const strangers = ["127.0.0.3", "127.0.0.4"];
const never = () => new Promise<never>(() => {});
const call = { ":method": "POST", ":path": rpcPath, "content-type": "application/grpc" };
const healthCheck = "/grpc.health.v1.Health/Check";

/** A connection of HTTP/1.1 of a stranger. */
async function openHttp1(started: Started, address: string): Promise<TLSSocket> {
  const socket = openTls(started, "http/1.1", address);
  await once(socket, "secureConnect");
  return socket;
}

function stallHttp2(headers: Record<string, string>, settings: object = {}, body?: Buffer) {
  return async (started: Started, address: string): Promise<void> => {
    const session = openSession(started, "TLS", address, settings);
    for (let i = 0; i < 4; i++) {
      const stream = session.request(headers, { endStream: headers[":method"] === "GET" });
      stream.on("error", () => {});
      if (body) stream.write(body);
    }
    // The answer to a ping says that the server has read what came before it.
    await new Promise((resolve) => session.ping(resolve));
  };
}

function stallHttp1(head: string) {
  return async (started: Started, address: string): Promise<void> => {
    for (let i = 0; i < 4; i++) (await openHttp1(started, address)).write(head);
  };
}

const http1Call = (path: string) =>
  `POST ${path} HTTP/1.1\r\nhost: a\r\ncontent-type: application/proto\r\ncontent-length: 60000\r\n\r\n`;

const apiServerAt = (server: string) => ({
  cluster: "other",
  kubernetes: { server, credential: apiCredentialName, review: "instead-of-keys" },
});

/** A port without TLS that answers by a handler. */
async function listenFor(limits: Partial<Limits>, answer: (url: string) => Promise<Response>) {
  const reached: Limit[] = [];
  const guard = createGuard({ ...usualLimits, ...limits }, (limit) => reached.push(limit));
  const fetch = ({ url }: Request): Promise<Response> => answer(url);
  const { port } = await openPort({ rpcs: new Map([["/call", never]]), fetch }, guard);
  return { guard, reached, port };
}

test("a request that is no long poll keeps its turn, even if it asks to wait", async () => {
  const asked: string[] = [];
  const first = Promise.withResolvers<Response>();
  const { guard, port } = await listenFor({ requests_at_work: 1 }, async (url) => {
    asked.push(new URL(url).pathname);
    return asked.length === 1 ? first.promise : new Response();
  });
  const ask = (path: string) =>
    fetch(`http://127.0.0.1:${port}${path}`, { headers: { prefer: "wait=50" } });
  const answers = [ask("/1")];
  await expect.poll(() => asked, longPatience).toEqual(["/1"]);
  answers.push(ask("/2"));
  await expect.poll(() => guard.exchanges.count, longPatience).toBe(2);
  expect(asked).toEqual(["/1"]);
  first.resolve(new Response());
  await Promise.all(answers);
  expect(asked).toEqual(["/1", "/2"]);
});

describe("strangers from several addresses delay nobody else with", () => {
  const ends: (() => Promise<void>)[] = [];
  let started: Started;

  beforeAll(async () => {
    started = await start(limits, (end) => ends.push(end));
  });

  afterAll(() => Promise.all(ends.map((end) => end())));

  test.each([
    ["calls over HTTP/2 without a body", stallHttp2(call)],
    ["calls over HTTP/2 with half a body", stallHttp2(call, {}, Buffer.alloc(1000))],
    ["calls that name a long poll", stallHttp2({ ...call, prefer: "wait=50" })],
    ["health checks without a message", stallHttp2({ ...call, ":path": healthCheck })],
    ["requests that are no calls, without an end", stallHttp2({ ...call, ":path": "/healthz" })],
    [
      "answers that they do not read",
      stallHttp2({ ":method": "GET", ":path": "/bundle.pem" }, { initialWindowSize: 0 }),
    ],
    ["calls over HTTP/1.1 without a body", stallHttp1(http1Call(rpcPath))],
    ["calls over HTTP/1.1 with half a body", stallHttp1(`${http1Call(rpcPath)}${"a".repeat(100)}`)],
    ["health checks over HTTP/1.1 without a message", stallHttp1(http1Call(healthCheck))],
    ["requests over HTTP/1.1 that are no calls", stallHttp1(http1Call("/healthz"))],
    [
      "a credential of their own, and no body",
      (ca: Started, address: string) =>
        stallHttp2({ ...call, authorization: ca.authorization })(ca, address),
    ],
  ])("%s", async (_, stall) => {
    for (const address of strangers) await stall(started, address);
    expect(await issueFor(started)).toBe(200);
  });
});

test.each([
  ["keys", (origin: string) => ({ jwks_uri: `${origin}/keys` })],
  ["API server", apiServerAt],
])(
  "calls that wait for the %s of another issuer delay nobody, not even at their address",
  async (_, placeAt) => {
    const asked = Promise.withResolvers<void>();
    const { origin } = await startLoopbackServer(async () => asked.resolve());
    const started = await start(limits, onTestFinished, [{ issuer: origin, ...placeAt(origin) }]);
    const token = await mintAccountToken(
      await createTokenKey("ES256", "k9"),
      origin,
      "a:b",
      new Date(),
    );
    for (const address of strangers) {
      const session = openSession(started, "TLS", address);
      for (let i = 0; i < 4; i++) {
        const stream = session.request({ ...call, authorization: `Bearer ${token}` });
        stream.on("error", () => {}).end(Buffer.alloc(5));
      }
      await new Promise((resolve) => session.ping(resolve));
    }
    await asked.promise;
    for (const address of strangers) expect(await issueFor(started, address)).toBe(200);
  },
);

describe("a new connection is served", () => {
  test("while strangers at several addresses hold all handshakes", async () => {
    const started = await start({ ...limits, handshakes: 4, handshakes_per_address: 2 });
    const { port } = started.served;
    const silent = strangers.flatMap((address) =>
      Array.from({ length: 4 }, () => openSocket(port, address)),
    );
    await Promise.all(silent.map((socket) => once(socket, "connect")));
    expect(await issueFor(started)).toBe(200);
    expect(await limitsReached(started.served)).toContain("handshakes");
  });

  test("while strangers at several addresses hold all connections, each with a request", async () => {
    const started = await start({ ...limits, connections: 4 });
    for (const address of strangers) {
      for (let i = 0; i < 2; i++) {
        const session = openSession(started, "TLS", address);
        session.request(call).on("error", () => {});
        await new Promise((resolve) => session.ping(resolve));
      }
    }
    expect(await issueFor(started)).toBe(200);
  });
});

describe("a request at the bound of requests under way", () => {
  test.each([
    ["a call without a body", call, {}, constants.NGHTTP2_REFUSED_STREAM],
    [
      "an answer that nobody reads",
      { ":path": "/bundle.pem" },
      { initialWindowSize: 0 },
      constants.NGHTTP2_ENHANCE_YOUR_CALM,
    ],
  ])("replaces a request of the address with most: %s", async (...row) => {
    const [, headers, settings, code] = row;
    const isAnswered = "initialWindowSize" in settings;
    const started = await start({ ...limits, streams: 3 });
    const held = ["127.0.0.3", "127.0.0.3", "127.0.0.4"].map((address) => {
      const session = openSession(started, "TLS", address, settings);
      const stream = session.request(headers, { endStream: headers !== call });
      const begun = isAnswered
        ? once(stream, "response")
        : new Promise((resolve) => session.ping(resolve));
      return { begun, ended: codeOf(stream) };
    });
    await Promise.all(held.map(({ begun }) => begun));
    await expect.poll(() => issueFor(started).catch(() => "refused"), longPatience).toBe(200);
    // The older of the two may be at work at that moment.
    expect(await Promise.race(held.slice(0, 2).map(({ ended }) => ended))).toBe(code);
    expect(await limitsReached(started.served)).toContain("streams");
  });
});

describe("the octets of requests under way", () => {
  test("are bounded: the address with most loses its oldest request and is slowed, and others are served", async () => {
    const started = await start({ ...limits, request_memory: 1, streams_per_connection: 100 });
    const session = openSession(started, "TLS", "127.0.0.3");
    await once(session, "remoteSettings");
    const slowed = once(session, "remoteSettings");
    const ended = Array.from({ length: 20 }, () => {
      const stream = session.request(call);
      stream.write(Buffer.alloc(60_000));
      return codeOf(stream);
    });
    expect(await ended[0]).toBe(constants.NGHTTP2_REFUSED_STREAM);
    expect(await slowed).toMatchObject([{ maxConcurrentStreams: 8 }]);
    expect(await limitsReached(started.served)).toContain("request_memory");
    expect(await issueFor(started)).toBe(200);
  });

  test("include their heads", async () => {
    const started = await start({ ...limits, request_memory: 1, streams_per_connection: 100 });
    const session = openSession(started, "TLS", "127.0.0.3");
    const huge = Array.from({ length: 20 }, (_, i) => [`x-${i}`, "a".repeat(1000)]);
    const headers = { ...call, ...Object.fromEntries(huge) };
    const ended = Array.from({ length: 60 }, () => codeOf(session.request(headers)));
    expect(await ended[0]).toBe(constants.NGHTTP2_REFUSED_STREAM);
    expect(await limitsReached(started.served)).toContain("request_memory");
  });
});

describe("the octets of answers that nobody reads", () => {
  const octets = new Uint8Array(100_000);

  async function connectFor(answer: () => Response, initialWindowSize: number) {
    const { port, reached } = await listenFor({ request_memory: 1 }, async () => answer());
    const session = connect(`http://127.0.0.1:${port}`, { settings: { initialWindowSize } });
    session.on("error", () => {});
    onTestFinished(() => session.destroy());
    return { session, reached };
  }

  /** Asks for 20 answers with a window of 0. */
  async function ask(answer: () => Response) {
    const { session, reached } = await connectFor(answer, 0);
    const streams = Array.from({ length: 20 }, () => session.request({ ":path": "/" }));
    const heads = Promise.all(streams.map((stream) => once(stream, "response")));
    return { heads, ended: streams.map(codeOf), reached };
  }

  test("are bounded: the address with most loses its oldest request", async () => {
    const { ended, heads, reached } = await ask(() => new Response(octets));
    heads.catch(() => {});
    expect(await ended[0]).toBe(constants.NGHTTP2_ENHANCE_YOUR_CALM);
    expect(reached).toContain("request_memory");
  });

  test("are few enough for a hundred callers behind one connection to get a large document each", async () => {
    const { port } = await listenFor({}, async () =>
      SharedOctets.share(new Uint8Array(300_000), {}),
    );
    const session = connect(`http://127.0.0.1:${port}`);
    onTestFinished(() => session.destroy());
    const get = () => codeOf(session.request({ ":path": "/" }));
    for (let round = 0; round < 2; round++) {
      const codes = await Promise.all(Array.from({ length: 100 }, get));
      expect(new Set(codes)).toEqual(new Set([constants.NGHTTP2_NO_ERROR]));
    }
  });

  test("count by a small part at first if all callers share one answer", async () => {
    const { heads, reached } = await ask(() => SharedOctets.share(octets, {}));
    await heads;
    expect(reached).toEqual([]);
  });

  test("count by the part that encryption copies if all callers share one answer", async () => {
    const { session, reached } = await connectFor(() => SharedOctets.share(octets, {}), 8192);
    session.once("connect", () => session.setLocalWindowSize(2 ** 22));
    const streams = Array.from({ length: 80 }, () => session.request({ ":path": "/" }));
    expect(await Promise.race(streams.map(codeOf))).toBe(constants.NGHTTP2_ENHANCE_YOUR_CALM);
    expect(reached).toContain("request_memory");
  });
});

describe("a stream that waits for its turn, and holds what nobody reads,", () => {
  const few = Array.from({ length: 4 }, () => data(1, 15_000));
  /** With those before it is more than a message may be, so that the server reads no further. */
  const beyond = Array.from({ length: 8 }, () => data(1, 4_000));
  const unread = Array.from({ length: 8 }, () => data(1, 1_000));

  /** Has one wait for a turn that work without an end has taken. */
  async function startWaiting() {
    const limits = { requests_at_work: 1, progress_timeout: 100 * hangMilliseconds };
    const { guard, port } = await listenFor(limits, never);
    await writeAndPing(await openFrames(port), [getRoot(1)]);
    const socket = await openFrames(port);
    await writeAndPing(socket, [post(1, "/call")]);
    // Each piece in a pass of its own, because the server opens its window as it reads.
    for (const each of few) await writeAndPing(socket, [each]);
    for (const each of [beyond, unread]) await writeAndPing(socket, each);
    expect(guard.exchanges.count).toBe(2);
    return { guard, socket };
  }

  test.each(["NGHTTP2_NO_ERROR", "NGHTTP2_CANCEL"] as const)(
    "ends when it is reset with %s, and no sooner",
    async (code) => {
      const { guard, socket } = await startWaiting();
      await writeAndPing(socket, [reset(1, constants[code])]);
      await expect.poll(() => guard.exchanges.count, longPatience).toBe(1);
    },
  );
});
