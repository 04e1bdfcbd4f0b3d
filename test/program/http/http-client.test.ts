import type { LookupAddress } from "node:dns";
import { once } from "node:events";
import { rm, writeFile } from "node:fs/promises";
import type { Socket } from "node:net";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { OperatorError } from "../../../src/foundation/errors.ts";
import { FetchError, JsonFetch } from "../../../src/foundation/fetch.ts";
import {
  createPublicLookup,
  HttpClient,
  NodeFetch,
  type OutgoingRequest,
  parseTarget,
} from "../../../src/program/http/http-client.ts";
import { startLoopbackServer } from "../../testkit/network/loopback-server.ts";
import { startTlsServer } from "../../testkit/network/loopback-tls.ts";
import { type RawAnswer, rawResponse, startRawServer } from "../../testkit/network/raw-server.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";
import { eventually } from "../../testkit/time/eventually.ts";
import { hangMilliseconds } from "../../testkit/time/hang-limit.ts";

const answered = (body: string): string => rawResponse("200 OK", "text/plain", body);

async function startClient(answer: RawAnswer) {
  const { url, ...server } = await startRawServer(answer);
  const client = new HttpClient({}, 2);
  onTestFinished(client.close);
  const request = (more: Partial<OutgoingRequest> = {}): OutgoingRequest => ({
    target: parseTarget(`${url}/path?query`),
    method: "GET",
    headers: {},
    ...more,
  });
  const send = async (more?: Partial<OutgoingRequest>): Promise<string> => {
    const { octets } = await client.send(request(more), 1024 * 1024);
    return Buffer.from(octets).toString();
  };
  return { ...server, client, request, send };
}

test("a request has the given method, path, headers and body", async () => {
  const { send, heard } = await startClient((socket) => socket.write(answered("")));
  await send({
    method: "PATCH",
    headers: { "x-name": "value", "content-length": "4" },
    body: "body",
  });
  const [head, body] = heard[0]?.split("\r\n\r\n") ?? [];
  expect(head).toMatch(/^PATCH \/path\?query HTTP\/1\.1\r\n/);
  expect(head).toMatch(/x-name: value/);
  expect(body).toBe("body");
});

test.each(["POST", "PUT", "PATCH", "DELETE"])(
  "a %s tells the length of its body",
  async (method) => {
    const { send, heard } = await startClient((socket) => socket.write(answered("")));
    await send({ method, body: "näme" });
    expect(heard[0]).toMatch(/^content-length: 5\r\n/im);
  },
);

test("there are no more connections than allowed, and further requests wait", async () => {
  const waiting: Socket[] = [];
  const { send, sockets } = await startClient((socket) => void waiting.push(socket));
  const answers = Promise.all([send(), send(), send(), send()]);
  for (let answers = 0; answers < 4; answers++) {
    await eventually(() => expect(waiting).not.toEqual([]));
    waiting.shift()?.write(answered("a"));
  }
  expect(await answers).toEqual(["a", "a", "a", "a"]);
  expect(sockets.size).toBe(2);
});

test("as many connections as a gateway has calls under way are used again", async () => {
  let [connections, requests] = [0, 0];
  const together = 128;
  let release = Promise.withResolvers<void>();
  const { url } = await startRawServer((socket) => {
    if (++requests % together === 0) release.resolve();
    void release.promise.then(() => socket.write(answered("")));
  });
  const client = new HttpClient({}, 256);
  onTestFinished(client.close);
  const connected = (): void => void connections++;
  const request = { target: parseTarget(url), method: "GET", headers: {}, connected };
  for (let round = 0; round < 2; round++) {
    release = Promise.withResolvers();
    await Promise.all(Array.from({ length: together }, () => client.send(request, 1024)));
  }
  expect(connections).toBe(together);
});

test("a request that gets no connection ends in time", async () => {
  const { send, client, request } = await startClient(() => {});
  const opened = [client.open(request()), client.open(request())];
  await expect(send({ timeoutMilliseconds: 50 })).rejects.toThrow("in time");
  client.close();
  await Promise.allSettled(opened);
});

test("an answer in pieces of one octet is refused, and one in many of a usual size is read", async () => {
  let octets = 1;
  const { send } = await startClient((socket) => socket.write(inPieces(octets, 400)));
  await expect(send()).rejects.toThrow("too small pieces");
  octets = 512;
  expect(await send()).toHaveLength(512 * 400);
});

test("an answer is refused that is longer than what is asked for, and one behind too many hints", async () => {
  const hint = "HTTP/1.1 103 Early Hints\r\n\r\n";
  let hints = 16;
  const { client, request } = await startClient((socket) =>
    socket.write(`${hint.repeat(hints)}${answered("four")}`),
  );
  expect((await client.send(request(), 4)).octets).toHaveLength(4);
  await expect(client.send(request(), 3)).rejects.toThrow("answered too much");
  hints = 17;
  await expect(client.send(request(), 4)).rejects.toThrow("interim answers without end");
});

function inPieces(octets: number, pieces: number): string {
  const piece = `${octets.toString(16)}\r\n${"x".repeat(octets)}\r\n`;
  const head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
  return `${head}${piece.repeat(pieces)}0\r\n\r\n`;
}

describe("a reused connection", () => {
  test("that is reset during an answer does not repeat the request", async () => {
    const { send, heard } = await startClient((socket) => {
      if (heard.length === 1) return void socket.write(answered("first"));
      socket.write(answered("second").slice(0, -1), () => {
        setImmediate(() => socket.resetAndDestroy());
      });
    });
    await send();
    await expect(send()).rejects.toThrow("broke off");
    expect(heard).toHaveLength(2);
  });

  test("that was closed meanwhile is replaced, and the request is repeated with its body", async () => {
    const { send, heard } = await startClient((socket) => {
      if (heard.length === 2) socket.destroy();
      else socket.write(answered("fine"));
    });
    const post = { method: "POST", headers: { "content-length": "4" }, body: "body" };
    await send(post);
    expect(await send(post)).toBe("fine");
    expect(heard.map((each) => each.split("\r\n\r\n")[1])).toEqual(["body", "body", "body"]);
  });

  test("cannot answer a request in advance", async () => {
    const { send, heard } = await startClient((socket) => {
      socket.write(heard.length === 1 ? answered("first") + answered("forged") : answered("true"));
    });
    expect(await send()).toBe("first");
    expect(await send()).toBe("true");
  });
});

describe("an answer that is read as it comes", () => {
  const begun = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n";

  test("ends with the signal", async () => {
    const { client, request, sockets } = await startClient((socket) => socket.write(begun));
    const ending = new AbortController();
    const answer = await client.open(request({ signal: ending.signal }));
    const [first] = await once(answer, "data");
    expect(String(first)).toBe("a");
    const [socket] = sockets;
    expect(socket?.closed).toBe(false);
    ending.abort();
    await expect(answer.toArray()).rejects.toThrow();
    await eventually(() => expect(socket?.closed).toBe(true));
  });

  test("fails for its reader when the connection breaks", async () => {
    const { client, request } = await startClient((socket) =>
      socket.write(begun, () => setImmediate(() => socket.resetAndDestroy())),
    );
    const answer = await client.open(request());
    await expect(answer.toArray()).rejects.toThrow();
  });
});

describe("over TLS", () => {
  test("a request goes only to a server whose certificate leads to the roots", async () => {
    const [good, other] = await Promise.all([
      startTlsServer((_, response) => response.end("good")),
      startTlsServer((_, response) => response.end("other")),
    ]);
    const client = new HttpClient({ ca: good.ca }, 1);
    onTestFinished(client.close);
    const ask = ({ origin }: { origin: string }) =>
      client.send({ target: parseTarget(origin), method: "GET", headers: {} }, 100);
    expect(Buffer.from((await ask(good)).octets).toString()).toBe("good");
    await expect(ask(other)).rejects.toBeInstanceOf(FetchError);
  });
});

const ip = (address: string): LookupAddress => ({ address, family: address.includes(":") ? 6 : 4 });

/** The addresses that a socket would connect to, or the code of the failure. */
function lookUp(addresses: readonly LookupAddress[], all: boolean, code?: string) {
  const error = code ? Object.assign(new Error("no answer"), { code }) : null;
  const lookup = createPublicLookup((_, __, callback) => callback(error, [...addresses]));
  return new Promise((resolve) =>
    lookup("a.test", { all }, (failure, found, family) =>
      resolve(failure ? failure.code : [found, family]),
    ),
  );
}

describe("a public lookup", () => {
  test("gives what is public, and leaves out what is not", async () => {
    const [good, six] = [ip("8.8.8.8"), ip("2606:4700::1111")];
    const mixed = [ip("127.0.0.1"), good, ip("fd00::1"), six];
    expect(await lookUp(mixed, true)).toEqual([[good, six], undefined]);
    expect(await lookUp(mixed, false)).toEqual(["8.8.8.8", 4]);
  });

  test.each(["127.0.0.1", "169.254.169.254", "fd00::1", "::ffff:127.0.0.1"])(
    "fails for a name that is %s alone",
    async (address) => {
      for (const all of [true, false]) {
        expect(await lookUp([ip(address)], all)).toBe("PRIVATE_ADDRESS");
      }
    },
  );

  test("fails for a name without addresses, and as DNS fails", async () => {
    expect(await lookUp([], true)).toBe("PRIVATE_ADDRESS");
    expect(await lookUp([], true, "ENOTFOUND")).toBe("ENOTFOUND");
  });
});

describe("a request that may go to public addresses alone", () => {
  const fetchPublic = JsonFetch.create(NodeFetch.trusting(undefined, "public"), hangMilliseconds);

  test.each(["localhost", "[::ffff:127.0.0.1]", "127.1"])(
    "does not connect to %s, where a server listens",
    async (host) => {
      const server = await startLoopbackServer((_, response) => response.end("{}"));
      const { port } = new URL(server.origin);
      const url = `http://${host}:${port}/`;
      await expect(fetchPublic(url)).rejects.toThrow("did not answer (PRIVATE_ADDRESS)");
      expect(server.requests).toEqual([]);
      const fetchAnywhere = JsonFetch.create(NodeFetch.trusting(undefined), hangMilliseconds);
      expect(await fetchAnywhere(`${server.origin}/`)).toEqual({});
    },
  );
});

test("the roots of a file count as they are at each request, and the last ones while it is swapped", async () => {
  const [former, next] = await Promise.all(
    ["former", "next"].map((name) => startTlsServer((_request, response) => response.end(name))),
  );
  const file = join(await temporaryFolder(), "ca.crt");
  await writeFile(file, former?.ca ?? "");
  const fetch = await NodeFetch.trustingFile(file);
  const ask = async (server: typeof former) => (await fetch(server?.origin ?? "", {})).text();
  expect(await ask(former)).toBe("former");
  await expect(ask(next)).rejects.toThrow("certificate that is not accepted");
  await rm(file);
  expect(await ask(former)).toBe("former");
  await writeFile(file, "-----BEGIN CERTIFICATE-----\n");
  expect(await ask(former)).toBe("former");
  await writeFile(file, next?.ca ?? "");
  expect(await ask(next)).toBe("next");
  await expect(ask(former)).rejects.toThrow("certificate that is not accepted");
  await expect(NodeFetch.trustingFile(join(file, "missing"))).rejects.toThrow(OperatorError);
});
