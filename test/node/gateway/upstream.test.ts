import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import type { Socket } from "node:net";
import { join } from "node:path";
import { create, fromBinary, type MessageShape, toBinary } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { describe, expect, onTestFinished, test } from "vitest";
import {
  IstioCertificateRequestSchema,
  IstioCertificateResponseSchema,
} from "../../../src/gen/istio/v1/auth/ca_pb.ts";
import { certificatesFrom } from "../../../src/node/gateway/certificate-source.ts";
import {
  openUpstream,
  rememberedAuthorization,
  tokenInFile,
  type Upstream,
  type UpstreamCall,
} from "../../../src/node/gateway/upstream.ts";
import {
  granted,
  type RawAnswer,
  rawResponse as response,
  startRawServer,
} from "../../testkit/network/raw-server.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";
import { eventually } from "../../testkit/time/eventually.ts";

const message = new TextEncoder().encode("msg");

async function startUpstream(answer: RawAnswer) {
  const { url, ...server } = await startRawServer(answer);
  const upstream = openUpstream(url, () => undefined);
  onTestFinished(upstream.close);
  const call = (more: Partial<UpstreamCall> = {}): Promise<unknown> =>
    upstream.createCertificate(message, { headers: { authorization: "Bearer x" }, ...more });
  const callForToken = (): Promise<unknown> => upstream.createJwtSvid(message, { headers: {} });
  return { ...server, call, callForToken };
}

const refused = (status: string, code: string, text: string) =>
  response(status, "application/json", JSON.stringify({ code, message: text }));

/** The code of what the CA has said; for everything else, that it is away. */
const outcomeOf = (call: Promise<unknown>): Promise<unknown> =>
  call.catch((error: unknown) =>
    error instanceof ConnectError ? [Code[error.code], error.rawMessage] : "away",
  );

test("forwards messages unchanged over one connection, and returns the answers", async () => {
  const { call, heard, sockets } = await startUpstream((socket) => socket.write(granted));
  for (let i = 0; i < 3; i++) expect(await call()).toEqual(Buffer.from("abc"));
  expect(sockets.size).toBe(1);
  expect(heard[0]).toMatch(
    /^POST \/istio\.v1\.auth\.IstioCertificateService\/CreateCertificate HTTP\/1\.1\r\n/,
  );
  expect(heard[0]).toMatch(/content-type: application\/proto\r\n/);
  expect(heard[0]).toMatch(/authorization: Bearer x\r\n/);
  expect(heard[0]).toMatch(/\r\n\r\nmsg$/);
  expect(heard[0]).not.toMatch(/connect-timeout-ms/);
});

test.each([
  [1500, "1500"],
  [0.2, "1"],
  [1e15, "1000000000"],
])("forwards a deadline of %d ms", async (timeoutMs, expected) => {
  const { call, heard } = await startUpstream((socket) => socket.write(granted));
  await call({ timeoutMs });
  expect(/connect-timeout-ms: (\d+)/.exec(heard[0] ?? "")?.[1]).toBe(expected);
});

describe("a refusal by the CA", () => {
  test.each<[string, string, string]>([
    ["401 Unauthorized", "unauthenticated", "Unauthenticated"],
    ["403 Forbidden", "permission_denied", "PermissionDenied"],
    ["400 Bad Request", "invalid_argument", "InvalidArgument"],
    ["429 Too Many Requests", "resource_exhausted", "ResourceExhausted"],
    ["504 Gateway Timeout", "deadline_exceeded", "DeadlineExceeded"],
    ["500 Internal Server Error", "internal", "Internal"],
  ])("with %s and %s reaches the caller", async (status, code, expected) => {
    const { call } = await startUpstream((s) => s.write(refused(status, code, "why not")));
    expect(await outcomeOf(call())).toEqual([expected, "why not"]);
  });

  test.each<[string, string]>([
    ["503 Service Unavailable", "unavailable"],
    ["404 Not Found", "unimplemented"],
    ["500 Internal Server Error", "unknown"],
    ["409 Conflict", "aborted"],
    ["500 Internal Server Error", "no_such_code"],
    ["200 OK", "invalid_argument"],
  ])("with %s and %s is an outage for the caller", async (status, code) => {
    const { call } = await startUpstream((s) => s.write(refused(status, code, "why not")));
    expect(await outcomeOf(call())).toBe("away");
  });

  test.each<[string, unknown]>([
    [refused("404 Not Found", "unimplemented", "no tokens"), ["Unimplemented", "no tokens"]],
    [response("404 Not Found", "text/html", "<html>"), "away"],
  ])("that it issues no tokens is the CA's own, and no proxy's: %j", async (answer, expected) => {
    const { callForToken } = await startUpstream((socket) => socket.write(answer));
    expect(await outcomeOf(callForToken())).toEqual(expected);
  });

  test.each<[string, string | null]>([
    ["retry-after: 0\r\n", "0"],
    ["retry-after: 007\r\n", "7"],
    ["", null],
    ["retry-after: -1\r\n", null],
    ["retry-after: soon\r\n", null],
    ["retry-after: 100000\r\n", null],
    ["retry-after: Wed, 21 Oct 2026 07:28:00 GMT\r\n", null],
    ["x-retry: 7\r\n", null],
  ])("with the header %j asks the caller for a wait of %s", async (header, seconds) => {
    const text = JSON.stringify({ code: "resource_exhausted", message: "later" });
    const answer = response("429 Too Many Requests", "application/json", text, header);
    const { call } = await startUpstream((socket) => socket.write(answer));
    const error = ConnectError.from(await call().catch((reason: unknown) => reason));
    expect(error.code).toBe(Code.ResourceExhausted);
    expect([...error.metadata]).toEqual(seconds === null ? [] : [["retry-after", seconds]]);
  });

  test("has a message that fits into a trailer and can be encoded", async () => {
    const body = `{"code":"internal","message":"\\ud800${"x".repeat(100_000)}"}`;
    const { call } = await startUpstream((s) =>
      s.write(response("500 X", "application/json", body)),
    );
    expect(await outcomeOf(call())).toEqual(["Internal", `\ufffd${"x".repeat(511)}`]);
  });
});

describe("an answer of something else than the CA", () => {
  const page = "<html>\r\n<h1>no</h1>";

  test.each<[string, unknown]>([
    ["401 Unauthorized", ["Unauthenticated", "refused with status 401"]],
    ["403 Forbidden", ["PermissionDenied", "refused with status 403"]],
    ["400 Bad Request", ["Internal", "refused with status 400"]],
    ["404 Not Found", "away"],
    ["429 Too Many Requests", "away"],
    ["500 Internal Server Error", "away"],
    ["502 Bad Gateway", "away"],
    ["504 Gateway Timeout", "away"],
    ["200 OK", "away"],
    ["204 No Content", "away"],
  ])("with %s counts by its status, as in Connect", async (status, expected) => {
    const { call } = await startUpstream((s) => s.write(response(status, "text/html", page)));
    expect(await outcomeOf(call())).toEqual(expected);
  });

  test.each<[string, string]>([
    ["a redirect", response("302 Found", "text/html", "", "location: http://127.0.0.1:9/\r\n")],
    [
      "another protocol",
      "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n",
    ],
    ["no HTTP", "220 smtp.example ESMTP\r\n"],
    [
      "a compressed message",
      response("200 OK", "application/proto", "abc", "content-encoding: gzip\r\n"),
    ],
    ["too much", response("200 OK", "application/proto", "x".repeat(300_000))],
    ["too long a head", `HTTP/1.1 200 OK\r\nx: ${"x".repeat(100_000)}\r\n\r\n`],
    ["two lengths", "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab"],
  ])("with %s is an outage", async (_, answer) => {
    const { call } = await startUpstream((socket) => socket.write(answer));
    expect(await outcomeOf(call())).toBe("away");
  });

  test("as an interim answer leaves the CA's answer as it is", async () => {
    const { call } = await startUpstream((socket) =>
      socket.write(`HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n${granted}`),
    );
    expect(await call()).toEqual(Buffer.from("abc"));
  });
});

describe("a connection that ends", () => {
  test("before the answer to its first request is an outage", async () => {
    const { call, heard } = await startUpstream((socket) => socket.destroy());
    expect(await outcomeOf(call())).toBe("away");
    expect(heard).toHaveLength(1);
  });

  test("in the middle of an answer is an outage, and the request is not repeated", async () => {
    const { call, heard } = await startUpstream((socket) => {
      if (heard.length === 1) socket.write(granted);
      else socket.end(granted.slice(0, -1));
    });
    await call();
    expect(await outcomeOf(call())).toBe("away");
    expect(heard).toHaveLength(2);
  });

  test("just as it is reused is replaced, and the request is repeated", async () => {
    const { call, heard } = await startUpstream((socket) => {
      if (heard.length === 2) socket.destroy();
      else socket.write(granted);
    });
    await call();
    expect(await call()).toEqual(Buffer.from("abc"));
    expect(heard).toHaveLength(3);
  });
});

test("a call whose signal aborts rejects with the reason, and its connection ends", async () => {
  const { call, heard, sockets } = await startUpstream(() => {});
  const patience = new AbortController();
  const outcome = outcomeOf(call({ signal: patience.signal }));
  await eventually(() => expect(heard).toHaveLength(1));
  const [socket] = sockets;
  const ended = once(socket as Socket, "close");
  patience.abort(new ConnectError("deadline exceeded", Code.DeadlineExceeded));
  expect(await outcome).toEqual(["DeadlineExceeded", "deadline exceeded"]);
  await ended;
  expect(await outcomeOf(call({ signal: patience.signal }))).toEqual([
    "DeadlineExceeded",
    "deadline exceeded",
  ]);
  expect(heard).toHaveLength(1);
});

test("a gateway shows the token that its file has now, and its cluster", async () => {
  const file = join(await temporaryFolder(), "token");
  const credentials = tokenInFile(file, "prod-1", () => new Date());
  for (const token of ["a.b.c", "d.e.f"]) {
    await writeFile(file, `${token}\n`);
    expect(await credentials()).toEqual({ authorization: `Bearer ${token}`, clusterid: "prod-1" });
  }
});

test("a gateway reads its own token again after some seconds, and after its clock was set back", async () => {
  let now = new Date("2026-11-22T12:00:00Z");
  let token = "first";
  const authorization = rememberedAuthorization(
    async () => ({ authorization: token, clusterid: "c" }),
    () => now,
  );
  const shownAfter = async (seconds: number, next: string) => {
    token = next;
    now = new Date(now.getTime() + 1000 * seconds);
    return (await authorization()).authorization;
  };
  expect(await shownAfter(0, "first")).toBe("first");
  expect(await shownAfter(4, "second")).toBe("first");
  expect(await shownAfter(1, "second")).toBe("second");
  expect(await shownAfter(-3600, "third")).toBe("third");
});

describe("a certificate for a program itself", () => {
  function sourceAt(certChain: string[]) {
    const asked: [MessageShape<typeof IstioCertificateRequestSchema>, UpstreamCall][] = [];
    const upstream: Pick<Upstream, "createCertificate"> = {
      createCertificate: async (octets, call) => {
        asked.push([fromBinary(IstioCertificateRequestSchema, octets), call]);
        const answer = create(IstioCertificateResponseSchema, { certChain });
        return toBinary(IstioCertificateResponseSchema, answer);
      },
    };
    const ending = new AbortController();
    const own = async () => ({ authorization: "Bearer own", clusterid: "c" });
    const source = certificatesFrom(upstream as Upstream, own, ending.signal);
    return { source, asked, ending };
  }
  const request = { csrPem: "csr", metadata: {} };

  test("is asked for with the lifetime that is wanted, and comes without its root", async () => {
    const { source, asked, ending } = sourceAt(["leaf", "intermediate", "root"]);
    expect(await source({ ...request, requestedSeconds: 77 })).toEqual(["leaf", "intermediate"]);
    expect(asked).toMatchObject([
      [
        { csr: "csr", validityDuration: 77n },
        { headers: { authorization: "Bearer own", clusterid: "c" }, timeoutMs: 20_000 },
      ],
    ]);
    ending.abort();
    expect(asked[0]?.[1].signal?.aborted).toBe(true);
  });

  test("that comes without a root is none", async () => {
    await expect(sourceAt(["leaf"]).source(request)).rejects.toThrow("without a root");
  });
});
