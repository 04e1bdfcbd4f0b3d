import { spawnSync } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect, test } from "vitest";
import { createTokenKey, jwksOf } from "../../testkit/callers/tokens.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { serveToml, startServe } from "../../testkit/programs/rampart-process.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";
import { eventually } from "../../testkit/time/eventually.ts";

const descriptors = 96;

test("a server survives strangers who take every descriptor, and is ready once they have left", async () => {
  const folder = await temporaryFolder();
  const config = join(folder, "rampart.toml");
  const jwks = JSON.stringify(jwksOf(await createTokenKey("ES256", "k1")));
  const ISSUERS = [{ issuer: "https://a.test", jwks }];
  const values = { PROPAGATION_INTERVAL: "0s", ISSUERS };
  await writeFile(config, serveToml(join(folder, "store"), values));
  const serve = await startServe(config, randomKek(), {}, descriptors);
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
