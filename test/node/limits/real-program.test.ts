import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { request } from "node:http";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { nodeFlags } from "../../../dev/package/node-flags.ts";
import { issuerTables, rpcPath } from "../../contract/service-under-test.ts";
import { createTokenKey, jwksOf, mintAccountToken } from "../../testkit/callers/tokens.ts";
import { createWorkload } from "../../testkit/callers/workload.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { getRoot, openFrames, post, preface, reset } from "../../testkit/network/http2-frames.ts";
import {
  type ServerProcess,
  serveToml,
  startServe,
} from "../../testkit/programs/rampart-process.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";
import { limitsReached } from "./limited-ca.ts";

const { issuer } = issuerTables.cluster;

/** `serve` as it is shipped, with the heap of the image, and a workload with a good credential. */
async function start() {
  const folder = await temporaryFolder();
  const config = join(folder, "rampart.toml");
  const key = await createTokenKey("ES256", "k1");
  const ISSUERS = [{ issuer, jwks: JSON.stringify(jwksOf(key)) }];
  const values = { PLAINTEXT_LISTEN: "127.0.0.1:0", ISSUERS };
  await writeFile(config, serveToml(join(folder, "store"), values));
  const heap = nodeFlags.filter((flag) => flag.startsWith("--max-"));
  const program = await startServe(config, randomKek(), {
    NODE_OPTIONS: heap.join(" "),
  });
  const authorization = `Bearer ${await mintAccountToken(key, issuer, "foo:bar", new Date())}`;
  const { csrPem: csr } = await createWorkload();
  return { ...program, authorization, csr };
}

type Started = ServerProcess & { readonly authorization: string; readonly csr: string };

/** A call from an address that no stranger has. */
async function issueFor({ plaintextPort: port, authorization, csr }: Started): Promise<unknown> {
  const headers = { authorization, "content-type": "application/json" };
  const from = { host: "127.0.0.1", port, localAddress: "127.0.0.2" };
  const outgoing = request({ ...from, method: "POST", path: rpcPath, headers });
  outgoing.end(JSON.stringify({ csr }));
  const [incoming] = await once(outgoing, "response");
  incoming.resume();
  return incoming.statusCode;
}

const opened = (port: number, count: number): Promise<Socket[]> =>
  Promise.all(Array.from({ length: count }, () => openFrames(port)));

/** More than one connection may have; each is as good as a request, because nothing of it ends. */
const manyStreams = (nth: (stream: number) => Buffer): Buffer =>
  Buffer.concat(Array.from({ length: 1000 }, (_, i) => nth(2 * i + 1)));

async function silentConnections(port: number): Promise<void> {
  const sockets = Array.from({ length: 600 }, () => {
    const socket = connect({ host: "127.0.0.1", port }).on("error", () => {});
    onTestFinished(() => void socket.destroy());
    socket.write(preface);
    return socket.resume();
  });
  await Promise.all(sockets.slice(0, 32).map((socket) => once(socket, "data")));
}

async function writing(port: number, bytes: Buffer): Promise<void> {
  for (const socket of await opened(port, 8)) socket.write(bytes);
}

const floods: readonly (readonly [string, (port: number) => Promise<void>])[] = [
  ["silent connections", silentConnections],
  [
    "streams of health's Watch",
    (port) =>
      writing(
        port,
        manyStreams((id) => post(id, "/grpc.health.v1.Health/Watch")),
      ),
  ],
  [
    "requests without an end",
    (port) =>
      writing(
        port,
        manyStreams((id) => post(id, rpcPath)),
      ),
  ],
  [
    "rapid resets",
    (port) =>
      writing(
        port,
        manyStreams((id) => Buffer.concat([getRoot(id), reset(id, 8)])),
      ),
  ],
];

test("no kind of flood ends the program, and it serves another address meanwhile", async () => {
  const started = await start();
  const { process: child, plaintextPort } = started;
  for (const [name, flood] of floods) {
    await flood(plaintextPort);
    for (let i = 0; i < 3; i++) expect([name, await issueFor(started)]).toEqual([name, 200]);
  }
  // On a slow machine the abuse closes the address before its handshakes are too many.
  expect(await limitsReached(started)).toContain("abuse");
  expect([child.exitCode, child.signalCode]).toEqual([null, null]);
});
