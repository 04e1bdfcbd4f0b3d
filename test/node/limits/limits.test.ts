import { spawn } from "node:child_process";
import { EventEmitter, once } from "node:events";
import { connect as connectHttp2, constants } from "node:http2";
import type { Socket } from "node:net";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { createGuard } from "../../../src/node/limits/guard.ts";
import { Handshakes } from "../../../src/node/limits/handshakes.ts";
import {
  bodyTimeoutOf,
  type Limit,
  type Limits,
  limitNames,
  limitsTable,
  usualLimits,
} from "../../../src/node/limits/limits.ts";
import { rpcPath } from "../../contract/service-under-test.ts";
import { patientLimits } from "../../testkit/ca/patient-limits.ts";
import { hasOpenssl } from "../../testkit/programs/openssl.ts";
import { eventually } from "../../testkit/time/eventually.ts";
import {
  codeOf,
  endOf,
  issueFor,
  limitsReached,
  openSession,
  openSocket,
  openTls,
  type Started,
  start,
} from "./limited-ca.ts";

describe("connections", () => {
  test("that wait for another bundle leave room for calls from their address, as behind a NAT", async () => {
    const started = await start({ connections_per_address: 4 });
    const waiting = Array.from({ length: 4 }, () => openTls(started, "http/1.1"));
    const answers = waiting.map((socket) => once(socket, "data"));
    for (const socket of waiting)
      socket.write(
        "GET /bundle.pem HTTP/1.1\r\nhost: a\r\nprefer: wait=50\r\nif-none-match: *\r\n\r\n",
      );
    expect(String(await Promise.race(answers))).toMatch(/^HTTP\/1\.1 304 (?![\s\S]*preference)/);
    expect(await issueFor(started, "127.0.0.1")).toBe(200);
  });

  test("without a request are closed after the idle time, with HTTP/2's GOAWAY", async () => {
    const started = await start({ idle_timeout: "200ms", progress_timeout: "200ms" });
    const session = openSession(started, "TLS");
    const [code] = await once(session, "goaway");
    expect(code).toBe(constants.NGHTTP2_NO_ERROR);
    await endOf(openTls(started, "http/1.1"));
  });
});

describe("handshakes", () => {
  test("that do not end are cut, over TLS and in plaintext", async () => {
    const { served } = await start({ handshake_timeout: "100ms" });
    const ports = [served.port, served.server.plaintextAddress?.port ?? 0];
    await Promise.all(ports.map((port) => endOf(openSocket(port))));
    expect(await limitsReached(served)).toContain("handshake_timeout");
  });

  test("of one address wait for their turn, and delay no other address", async () => {
    const started = await start({ handshakes_per_address: 1, handshakes: 2 });
    const { served } = started;
    const silent = Array.from({ length: 10 }, () => openSocket(served.port));
    await eventually(async () =>
      expect(await limitsReached(served)).toContain("handshakes_per_address"),
    );
    expect(await issueFor(started)).toBe(200);
    expect(silent.some(({ destroyed }) => destroyed)).toBe(true);
  });
});

/** Handshakes of fake sockets, whose ends a test decides. */
function handshakesOf(limits: Partial<Limits> = {}) {
  const reached: Limit[] = [];
  const banned: string[] = [];
  const ends = new Map<Socket, (isAcceptable: boolean) => void>();
  const handshakes = new Handshakes(
    { ...usualLimits, ...limits },
    (limit) => reached.push(limit),
    (socket, done) => void ends.set(socket, done),
    (address) => banned.push(address),
  );
  onTestFinished(() => handshakes.close());
  const open = (bytesRead = 0): Socket => {
    const socket = Object.assign(new EventEmitter(), {
      remoteAddress: "192.0.2.1",
      bytesRead,
      destroyed: false,
      destroy: () => {
        socket.destroyed = true;
        socket.emit("close");
      },
    });
    handshakes.take(socket as unknown as Socket);
    return socket as unknown as Socket;
  };
  return { handshakes, open, ends, reached, banned };
}

test("handshakes of all connections that a gateway opens at once find a place", () => {
  const { open, reached } = handshakesOf();
  for (let i = 0; i < usualLimits.requests_at_work; i++) open();
  expect(reached).toEqual([]);
  for (let i = 0; i < 20; i++) open();
  expect(new Set(reached)).toEqual(new Set(["handshakes_per_address"]));
});

test("a socket that closes in its handshake, or before it, leaves its turn to the next", async () => {
  const { open, ends } = handshakesOf({ handshakes_per_address: 1 });
  const [first, second, third] = [open(), open(), open()];
  // Its event `close` comes later.
  Object.assign(second, { destroyed: true });
  first.destroy();
  await new Promise(setImmediate);
  expect([...ends.keys()]).toEqual([first, third]);
});

test("a port that closes destroys sockets before the end of their handshakes, and judges none after it", () => {
  const { handshakes, open, ends, banned } = handshakesOf({ handshakes_per_address: 2 });
  const [established, ...others] = [open(100_000), open(), open()];
  ends.get(established as Socket)?.(true);
  handshakes.close();
  expect([established, ...others].map((each) => each?.destroyed)).toEqual([false, true, true]);
  established?.destroy();
  expect(banned).toEqual([]);
});

describe("streams", () => {
  test("of one connection are bounded, over TLS and in plaintext", async () => {
    const started = await start({ streams_per_connection: 7 });
    for (const over of ["TLS", "plaintext"] as const) {
      const [settings] = await once(openSession(started, over), "remoteSettings");
      expect(settings).toMatchObject({ maxConcurrentStreams: 7 });
    }
  });

  test("in all are bounded: one more is refused with a code that makes its caller try again", async () => {
    const started = await start({ streams: 2 });
    const session = openSession(started, "TLS", "127.0.0.1", { initialWindowSize: 0 });
    const hold = () => session.request({ ":path": "/bundle.pem" });
    const held = [hold(), hold()];
    await Promise.all(held.map((stream) => once(stream, "response")));
    expect(await codeOf(hold())).toBe(constants.NGHTTP2_REFUSED_STREAM);
    const http1 = openTls(started, "http/1.1");
    const chunks: Buffer[] = [];
    http1.on("data", (chunk: Buffer) => chunks.push(chunk));
    http1.write("GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n");
    await endOf(http1);
    expect(Buffer.concat(chunks).toString()).toMatch(/^HTTP\/1\.1 503 [\s\S]*retry-after: 1/i);
    for (const stream of held) stream.close();
    await eventually(async () => expect(await issueFor(started, "127.0.0.1")).toBe(200));
  });
});

test("requests that never come, or drip, and answers that nobody reads are ended", async () => {
  const started = await start({ progress_timeout: "300ms" });
  const never = openSession(started, "TLS").request({
    ":method": "POST",
    ":path": rpcPath,
    "content-type": "application/grpc",
    authorization: started.authorization,
  });
  const unread = openSession(started, "TLS", "127.0.0.1", { initialWindowSize: 0 });
  const dripping = [
    "GET /bundle.pem HTTP/1.1\r\nhost: a\r\nx: ",
    `POST ${rpcPath} HTTP/1.1\r\nhost: a\r\ncontent-type: application/proto\r\ncontent-length: 60000\r\n\r\n`,
  ].map((head) => {
    const socket = openTls(started, "http/1.1");
    socket.write(head);
    const drip = setInterval(() => socket.write("a"), 50);
    onTestFinished(() => clearInterval(drip));
    return endOf(socket);
  });
  const [, code] = await Promise.all([
    codeOf(never),
    codeOf(unread.request({ ":path": "/bundle.pem" })),
    ...dripping,
  ]);
  expect(code).toBe(constants.NGHTTP2_CANCEL);
  expect(await limitsReached(started.served)).toContain("progress_timeout");
});

test("the port of callers answers health's Check, and that of monitoring its Watch as well", async () => {
  const { served } = await start({});
  const statuses = (port: number) =>
    Promise.all(
      ["Check", "Watch"].map(async (rpc): Promise<number> => {
        const session = connectHttp2("http://ca", { createConnection: () => openSocket(port) });
        onTestFinished(() => session.destroy());
        const stream = session.request({
          ":method": "POST",
          ":path": `/grpc.health.v1.Health/${rpc}`,
          "content-type": "application/grpc",
          te: "trailers",
        });
        stream.end(Buffer.alloc(5));
        const [headers] = await once(stream, "response");
        return Number(headers[":status"]);
      }),
    );
  expect(await statuses(served.server.plaintextAddress?.port ?? 0)).toEqual([200, 404]);
  expect(await statuses(served.monitoringPort)).toEqual([200, 200]);
});

describe("the table LIMITS", () => {
  test.each([100, 10_000, 2 ** 31 - 1])(
    "lets an answer leave before its request has taken longer than %i ms",
    (progress_timeout) => {
      expect(bodyTimeoutOf({ ...usualLimits, progress_timeout })).toBeLessThan(progress_timeout);
    },
  );

  test("has a default for every member", () => {
    expect([...Object.keys(limitsTable.parse(undefined)), "memory"]).toEqual(limitNames);
    expect(limitsTable.parse({ connections: 7 })).toMatchObject({ connections: 7, streams: 2000 });
  });

  test.each<[string, object]>([
    ["none", { connections: 0 }],
    ["a part of a connection", { connections: 1.5 }],
    ["a text for a number", { streams: "many" }],
    ["a number for a duration", { progress_timeout: 10 }],
    ["no time", { progress_timeout: "0s" }],
    ["more than a timer holds", { idle_timeout: "1000h" }],
    ["a member of another name", { conections: 7 }],
  ])("refuses %s", (_, table) => {
    expect(limitsTable.safeParse(table).success).toBe(false);
  });
});

describe("a server that takes on another table while it runs", () => {
  let started: Started;

  beforeAll(async () => {
    started = await start({}, afterAll);
  });

  async function change(limits: object): Promise<void> {
    const LIMITS = { ...patientLimits, ...limits };
    expect(await started.served.reconfigure({ LIMITS })).toEqual([]);
  }

  test("a raised bound of handshakes admits those that wait, and cuts nobody", async () => {
    await change({ handshakes: 1, handshakes_per_address: 1 });
    const silent = openSocket(started.served.port);
    await once(silent, "connect");
    const waiting = openTls(started, "h2");
    await change({ handshakes: 2, handshakes_per_address: 2 });
    const next = openTls(started, "h2");
    await Promise.all([once(waiting, "secureConnect"), once(next, "secureConnect")]);
    expect(silent.destroyed).toBe(false);
  });

  test("a lowered bound of connections closes none by itself, and a new one replaces one", async () => {
    await change({});
    const open = [openTls(started, "h2"), openTls(started, "h2")];
    await Promise.all(open.map((each) => once(each, "secureConnect")));
    await change({ connections_per_address: 1 });
    const next = openTls(started, "h2");
    await Promise.race(open.map(endOf));
    expect([...open, next].filter(({ destroyed }) => !destroyed)).toHaveLength(2);
  });
});

test("stalled callers are ended even if the table changes again and again", async () => {
  const limits = { ...usualLimits, progress_timeout: 200 };
  const guard = createGuard(limits);
  const { promise: aborted, resolve: abort } = Promise.withResolvers<void>();
  const exchange = { isReceiving: () => true, unsentOctets: () => 0, isGone: () => false };
  guard.exchanges.begin({ ...exchange, address: "192.0.2.1", abort, refuse: () => {} });
  const changes = setInterval(() => guard.follow(limits), 20);
  try {
    await aborted;
  } finally {
    clearInterval(changes);
    guard.end();
  }
});

test("a limit that a table no longer has counts no more", () => {
  const guard = createGuard({ ...usualLimits, memory: 1 });
  guard.follow(usualLimits);
  guard.end();
  expect(guard.limits).toEqual(usualLimits);
});

const keyUpdates =
  "a peer that has a connection compute new keys again and again is cut, and its address refused";

test.skipIf(!hasOpenssl)(keyUpdates, async () => {
  const started = await start({});
  const { port } = started.served;
  const words = ["s_client", "-connect", `127.0.0.1:${port}`, "-tls1_3", "-alpn", "h2"];
  const peer = spawn("openssl", words, { stdio: ["pipe", "ignore", "ignore"] });
  onTestFinished(() => void peer.kill());
  peer.stdin.on("error", () => {});
  // OpenSSL takes one command of each read.
  const updates = setInterval(() => peer.stdin.write("K\n"), 2);
  await once(peer, "exit");
  clearInterval(updates);
  await once(openSocket(port).resume(), "close");
  const honest = openSession(started, "TLS", "127.0.0.2");
  await once(honest, "connect");
  expect(honest.destroyed).toBe(false);
});
