import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFile, rm, writeFile } from "node:fs/promises";
import { request } from "node:http";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { connect as connectTls } from "node:tls";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { nodeFlags } from "../../../dev/package/node-flags.ts";
import { issuerTables, rpcPath } from "../../contract/service-under-test.ts";
import { servedName } from "../../testkit/ca/served-ca.ts";
import { createTokenKey, jwksOf, mintAccountToken } from "../../testkit/callers/tokens.ts";
import { createWorkload } from "../../testkit/callers/workload.ts";
import { randomKek } from "../../testkit/configuration.ts";
import {
  frame,
  getRoot,
  openFrames,
  ping,
  post,
  preface,
  reset,
} from "../../testkit/network/http2-frames.ts";
import { nativeClient } from "../../testkit/network/native-grpc.ts";
import { startRawServer } from "../../testkit/network/raw-server.ts";
import {
  type ServerProcess,
  serveToml,
  startServe,
} from "../../testkit/programs/rampart-process.ts";
import { endIn } from "../../testkit/refusal.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";
import { eventually } from "../../testkit/time/eventually.ts";
import { hangMilliseconds } from "../../testkit/time/hang-limit.ts";
import { limitsReached, openSocket } from "./limited-ca.ts";

const { issuer } = issuerTables.cluster;
const key = await createTokenKey("ES256", "k1");
const { csrPem: csr } = await createWorkload();
const bearerOf = async (from: string = issuer): Promise<string> =>
  `Bearer ${await mintAccountToken(key, from, "foo:bar", new Date())}`;

/** `serve` as a program, on one store however often it is started. */
async function serveProgram(values: object = {}, ...otherIssuers: readonly object[]) {
  const folder = await temporaryFolder();
  const config = join(folder, "rampart.toml");
  const kek = randomKek();
  const ISSUERS = [{ issuer, jwks: JSON.stringify(jwksOf(key)) }, ...otherIssuers];
  const all = { ISSUERS, PROPAGATION_INTERVAL: "0s", ...values };
  await writeFile(config, serveToml(join(folder, "store"), all));
  const start = (secrets: Readonly<Record<string, string>> = {}, descriptors?: number) =>
    startServe(config, kek, secrets, descriptors);
  return { folder, start };
}

/** A call from an address that no stranger has. */
async function issueFor({ plaintextPort: port }: ServerProcess): Promise<unknown> {
  const headers = { authorization: await bearerOf(), "content-type": "application/json" };
  const from = { host: "127.0.0.1", port, localAddress: "127.0.0.2" };
  const outgoing = request({ ...from, method: "POST", path: rpcPath, headers });
  outgoing.end(JSON.stringify({ csr }));
  const [incoming] = await once(outgoing, "response");
  incoming.resume();
  return incoming.statusCode;
}

async function silentConnections(port: number): Promise<void> {
  const sockets = Array.from({ length: 600 }, () => {
    const socket = openSocket(port);
    socket.write(preface);
    return socket.resume();
  });
  await Promise.all(sockets.slice(0, 32).map((socket) => once(socket, "data")));
}

/** On each of eight connections more streams than one may have; each is as good as a request, because nothing of it ends. */
const streams = (nth: (stream: number) => Buffer) => async (port: number) => {
  const bytes = Buffer.concat(Array.from({ length: 1000 }, (_, i) => nth(2 * i + 1)));
  const sockets = await Promise.all(Array.from({ length: 8 }, () => openFrames(port)));
  for (const socket of sockets) socket.write(bytes);
};

const floods: Readonly<Record<string, (port: number) => Promise<void>>> = {
  "silent connections": silentConnections,
  "streams of health's Watch": streams((id) => post(id, "/grpc.health.v1.Health/Watch")),
  "requests without an end": streams((id) => post(id, rpcPath)),
  "rapid resets": streams((id) => Buffer.concat([getRoot(id), reset(id, 8)])),
};

test("no kind of flood ends the program, and it serves another address meanwhile", async () => {
  const { start } = await serveProgram({ PLAINTEXT_LISTEN: "127.0.0.1:0" });
  const heap = nodeFlags.filter((flag) => flag.startsWith("--max-"));
  const started = await start({ NODE_OPTIONS: heap.join(" ") });
  const { process: child, plaintextPort } = started;
  for (const [name, flood] of Object.entries(floods)) {
    await flood(plaintextPort);
    for (let i = 0; i < 3; i++) expect([name, await issueFor(started)]).toEqual([name, 200]);
  }
  // On a slow machine the abuse closes the address before its handshakes are too many.
  expect(await limitsReached(started)).toContain("abuse");
  expect([child.exitCode, child.signalCode]).toEqual([null, null]);
});

const continuation = frame(9, 0, 1, Buffer.alloc(0));
/** `GET https:`, to be continued. */
const openHead = frame(1, 0, 1, Buffer.from([0x82, 0x87]));
const odd = Array.from({ length: 500 }, (_, i) => 2 * i + 1);

/** The ways in which a peer ends a session. It acknowledges no settings, whichever it takes. */
const breaches: ReadonlyMap<string, readonly Buffer[]> = new Map([
  ["a head in too many frames", [openHead, ...Array<Buffer>(20).fill(continuation)]],
  ["a frame within a head", [openHead, ping]],
  ["a head that does not decompress", [frame(1, 4, 1, Buffer.alloc(6, 0xff))]],
  ["a frame that is too large", [frame(0, 0, 1, Buffer.alloc(20_000))]],
  ["a reset of a stream that never was", [reset(1, 8)]],
  ["a window that is too large", [frame(8, 0, 0, Buffer.from([0x7f, 0xff, 0xff, 0xff]))]],
  ["a request, and then a broken one", [getRoot(1), frame(1, 4, 3, Buffer.alloc(6, 0xff))]],
  ["pings by the hundred", Array<Buffer>(500).fill(ping)],
  [
    "resets by the hundred",
    odd.map((stream) => Buffer.concat([getRoot(stream), reset(stream, 8)])),
  ],
  ["a peer that hangs up", []],
]);

/** Opens some connections one after the other, and ends the session of each. Resolves when all are closed. */
async function breakSessions(open: () => Socket, frames: readonly Buffer[]): Promise<void> {
  for (let i = 0; i < 4; i++) {
    const socket = open();
    const closed = new Promise((resolve) => socket.once("close", resolve));
    socket.on("error", () => {});
    socket.once("data", () => {
      socket.resume();
      // Not every breach ends the session at once.
      socket.end(Buffer.concat(frames));
    });
    socket.write(preface);
    await closed;
  }
}

const counter = fileURLToPath(
  new URL("../../testkit/programs/session-counter.ts", import.meta.url),
);

// In the process of a test runner, Node lets go of every such session.
test("the server keeps no session in memory that its peer has broken, in any of several ways", async () => {
  const { folder, start } = await serveProgram({ PLAINTEXT_LISTEN: "127.0.0.1:0" });
  const held = join(folder, "held");
  const { port, plaintextPort, send } = await start({
    NODE_OPTIONS: `--import=${counter} --disable-warning=ExperimentalWarning`,
    HELD_SESSIONS: held,
  });
  const heldSessions = async (): Promise<number> => {
    await rm(held, { force: true });
    send("SIGUSR2");
    const read = () => readFile(held, "utf8").catch(() => "");
    await expect.poll(read, { timeout: hangMilliseconds }).toMatch(/^\d+$/);
    return Number(await read());
  };
  const tls = { rejectUnauthorized: false, ALPNProtocols: ["h2"] };
  let strangers = 10;
  for (const frames of breaches.values()) {
    // Some are an abuse, which shuts out an address for a while.
    const from = { host: "127.0.0.1", localAddress: `127.0.0.${strangers++}` };
    await breakSessions(() => connectTls({ ...from, ...tls, port }), frames);
    await breakSessions(() => connect({ ...from, port: plaintextPort }), frames);
  }
  await expect.poll(heldSessions, { timeout: hangMilliseconds }).toBe(0);
});

/** Node's own fetch rejects this answer, and five seconds later it ends the process. */
const encoded = [
  "HTTP/1.1 200 OK",
  "content-encoding: gzip, gzip, gzip, gzip, gzip, gzip",
  "transfer-encoding: chunked",
  "",
  "5",
  "abcde",
  "",
].join("\r\n");

test("a server outlives a hostile issuer, loses nothing that it answered when it is killed, and ends politely when asked", async () => {
  const hostile = await startRawServer((socket) => void socket.write(encoded));
  const table = { issuer: "https://hostile.test", cluster: "hostile", jwks_uri: hostile.url };
  const { start } = await serveProgram({}, table);
  const server = await start();
  const bundleOf = async ({ monitoringPort }: ServerProcess): Promise<string> =>
    (await fetch(`http://127.0.0.1:${monitoringPort}/bundle.pem`)).text();
  const roots = await bundleOf(server);
  const ask = async (from: string) => {
    const authorization = await bearerOf(from);
    const client = nativeClient(server.port, servedName, { roots });
    return endIn(server, (id) =>
      client.createCertificate({ csr }, { ...id, authorization }),
    ).finally(client.close);
  };
  expect(await ask(table.issuer)).toBe("Unavailable key-provider-unreachable");
  const [socket] = hostile.sockets;
  await new Promise<void>((resolve) => {
    if (socket?.closed) resolve();
    else socket?.once("close", resolve);
  });
  expect(await ask(issuer)).toBe("issued");
  await server.end("SIGKILL");
  const last = await start();
  expect(await bundleOf(last)).toBe(roots);
  expect(await last.end()).toBe(0);
});

const descriptors = 96;

test("a server survives strangers who take every descriptor, and is ready once they have left", async () => {
  const { start } = await serveProgram();
  const serve = await start({}, descriptors);
  const { port, monitoringPort } = serve;
  const faults = storeFaults(serve.process.stderr);
  const strangers = [port, monitoringPort].map((each) => takeDescriptors(each));
  // The store is read every two seconds. Memory is measured for each request, which takes a descriptor as well.
  expect(await Promise.race([faults.next(), serve.ended])).toMatchObject({ done: false });
  for (const leave of strangers) leave();
  await eventually(async () => {
    const response = await fetch(`http://127.0.0.1:${monitoringPort}/readyz`);
    expect(await response.json()).toEqual(expect.objectContaining({ ready: true, reasons: [] }));
  });
  expect(await serve.end()).toBe(0);
});

/** Strangers who come again when the server closes their connections. @returns What has them leave. */
function takeDescriptors(port: number): () => void {
  const sockets = new Set<Socket>();
  let haveLeft = false;
  const come = (): void => {
    if (haveLeft) return;
    const socket = connect(port, "127.0.0.1").on("error", () => {});
    sockets.add(socket);
    socket.once("close", () => {
      sockets.delete(socket);
      setTimeout(come, 100);
    });
  };
  for (let i = 0; i < descriptors; i++) come();
  return () => {
    haveLeft = true;
    for (const socket of sockets) socket.destroy();
  };
}

const withoutDescriptor = `
const { createGuard } = await import(process.argv[1]);
const { usualLimits } = await import(process.argv[2]);
const { openSync } = await import("node:fs");
const reached = [];
const guard = createGuard(usualLimits, (limit) => reached.push(limit));
const exchange = { address: "192.0.2.1", isReceiving: () => false, unsentOctets: () => 0 };
const begin = () => guard.exchanges.begin({ ...exchange, abort() {}, refuse() {}, isGone: () => false });
const before = begin() !== undefined;
try { for (;;) openSync("/dev/null"); } catch {}
for (const until = performance.now() + 100; performance.now() < until; );
process.exitCode = before && begin() === undefined && reached.join() === "memory" ? 0 : 1;
process.exit();
`;

test("a process that cannot read how much memory it holds takes no more work", () => {
  const source = (name: string) =>
    new URL(`../../../src/node/limits/${name}`, import.meta.url).href;
  const program = ["--no-warnings", "--input-type=module", "--eval", withoutDescriptor];
  const words = [process.execPath, ...program, source("guard.ts"), source("limits.ts")];
  const shell = ["-c", `ulimit -n ${descriptors}; exec "$@"`, "sh", ...words];
  const { status, stderr } = spawnSync("/bin/sh", shell, { encoding: "utf8" });
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
});

/** The lines of a log that say that the store cannot be read. */
async function* storeFaults(output: NodeJS.ReadableStream | null): AsyncGenerator<string> {
  if (!output) return;
  for await (const line of createInterface(output))
    if (line.includes("store-unreachable")) yield line;
}
