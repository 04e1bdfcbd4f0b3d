import { readFile, writeFile } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { join, resolve } from "node:path";
import { connect, type Server } from "node:tls";
import { pathToFileURL } from "node:url";
import { createLocalJWKSet, jwtVerify } from "jose";
import { afterAll, expect, onTestFinished, test } from "vitest";
import {
  type ClientOptions,
  createClient,
  type RenewingIdentity,
  type X509Svid,
} from "../../src/client/client.ts";
import { startLoopbackServer } from "../testkit/network/loopback-server.ts";
import { createEdgeWorker } from "../testkit/programs/edge-worker.ts";
import { lastingFolder } from "../testkit/temporary-folder.ts";
import { until } from "../testkit/time/until.ts";
import { createVirtualTime } from "../testkit/time/virtual-time.ts";
import { passToNow, startControlledCas } from "./controlled-ca.ts";

const page = resolve("docs/how-to/client.md");
const { found, close } = await startControlledCas();
afterAll(close);

/** A CA whose clock shows the time at which TLS verifies what it issues. */
async function foundNow() {
  const { url, ca, mint } = await found();
  await passToNow(ca);
  return { url, mint };
}

/** Writes the program of the page, with another module in place of the installed client. */
async function programOf(kind: "node" | "worker", client: string): Promise<string> {
  const block = new RegExp(`^\`\`\`js ${kind}\\n([\\s\\S]*?)^\`\`\``, "m");
  const [, program = ""] = block.exec(await readFile(page, "utf8")) ?? [];
  const file = join(await lastingFolder(), `${kind}.mjs`);
  const played = program.replace("@rampart-ca/rampart/client", client).replace("8443", "0");
  await writeFile(file, played);
  return file;
}

/** One call of the server, which ends with its whole answer. @returns The serial number of its certificate. */
function call(port: number, { privateKeyPem, certChain, trustBundle }: X509Svid): Promise<string> {
  return new Promise((succeed, reject) => {
    const credentials = { key: privateKeyPem, cert: certChain, ca: trustBundle.pem };
    const checkServerIdentity = () => undefined;
    const socket = connect({ port, ...credentials, checkServerIdentity }, () => {
      serial = socket.getPeerX509Certificate()?.serialNumber ?? "";
    });
    let [serial, answer] = ["", ""];
    socket.setEncoding("utf8").on("data", (text) => {
      answer += text;
    });
    socket.on("end", () => (answer === "hello" ? succeed(serial) : reject(new Error(answer))));
    socket.on("error", reject);
  });
}

interface PlayedServer {
  readonly server: Server;
  readonly identity: RenewingIdentity;
}

test("the server of the page renews under load, and no handshake fails", async () => {
  const { url, mint } = await foundNow();
  const time = createVirtualTime(new Date());
  const ports = { ...time, random: () => 0.5 };
  const folder = await lastingFolder();
  await writeFile(
    join(folder, "client.mjs"),
    `export const createClient = (options) => globalThis.playedClient(options);\n`,
  );
  Object.assign(globalThis, {
    playedClient: (options: ClientOptions) => createClient({ ...options, url, token: mint }, ports),
  });
  const program = await programOf("node", pathToFileURL(join(folder, "client.mjs")).href);
  const { server, identity } = (await import(pathToFileURL(program).href)) as PlayedServer;
  onTestFinished(() => {
    identity.close();
    server.close();
  });
  if (!server.listening) await new Promise((listening) => server.once("listening", listening));
  const { port } = server.address() as AddressInfo;
  const own = { url, trustDomain: "cluster.local", token: mint, extractableKeys: true };
  const peer = await createClient(own).issue();

  const serials = new Set<string>();
  const faults: unknown[] = [];
  let [isOver, handshakes] = [false, 0];
  const load = Array.from({ length: 8 }, async () => {
    while (!isOver) {
      await call(port, peer).then(
        (serial) => serials.add(serial),
        (error: unknown) => faults.push(error),
      );
      handshakes++;
    }
  });
  // Half of what is left of the CA's day, each time.
  for (const [i, hours] of [13, 6, 3].entries()) {
    time.pass(hours * 3600);
    await until(`no renewal ${i + 1}`, async () => serials.size >= i + 2 || faults.length > 0);
  }
  isOver = true;
  await Promise.all(load);
  expect(faults).toEqual([]);
  expect(serials.size).toBe(4);
  expect(handshakes).toBeGreaterThan(20);
  await expect(call(port, { ...peer, certChain: "", privateKeyPem: "" })).rejects.toThrow();
});

test("the Worker of the page calls a mesh in workerd, with a token that the bundle verifies", async () => {
  const { url, mint } = await foundNow();
  const shown: string[] = [];
  const { origin: orders } = await startLoopbackServer(({ headers }, response) => {
    shown.push(`${headers.authorization}`.replace("Bearer ", ""));
    response.end("an order");
  });
  const main = await programOf("worker", resolve("src/client/client.ts"));
  const vars = { CA_URL: url, CA_TOKEN: await mint(), ORDERS_URL: orders };
  const worker = await createEdgeWorker({ main, vars });
  onTestFinished(() => worker.close());
  await worker.listen();
  for (let calls = 0; calls < 2; calls++) {
    expect(await (await worker.fetch("/")).text()).toBe("an order");
  }
  const own = createClient({ url, trustDomain: "cluster.local", token: mint });
  const { jwks } = await own.bundle();
  const [token = "", again] = shown;
  const { payload } = await jwtVerify(token, createLocalJWKSet(jwks as never), {
    audience: "orders.test",
  });
  expect(payload.sub).toBe("spiffe://cluster.local/ns/foo/sa/bar");
  expect(again).toBe(token);
});
