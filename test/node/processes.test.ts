import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect, onTestFinished, test } from "vitest";
import { listenInPlaintext } from "../../src/node/listener.ts";
import { temporaryFolder } from "../dev/temporary-folder.ts";
import { createEventRecorder } from "../testkit/event-recorder.ts";
import { randomKek } from "../testkit/running-ca.ts";

const program = join(import.meta.dirname, "../../src/cli/main.ts");

test("several processes serve together, and end together when one is told to", async () => {
  const folder = await temporaryFolder();
  const config = join(folder, "rampart.toml");
  await writeFile(
    config,
    [
      `STORE_DIRECTORY = ${JSON.stringify(join(folder, "store"))}`,
      `INCEPTION_DATE = ${new Date().toISOString().slice(0, 10)}`,
      'LISTEN = "127.0.0.1:0"',
      'MONITORING_LISTEN = "127.0.0.1:0"',
      'PROPAGATION_INTERVAL = "0s"',
      '[[ISSUERS]]\nissuer = "https://a.test"',
    ].join("\n"),
  );
  const { PATH } = process.env;
  const child = spawn(process.execPath, [program, "serve", "-c", config, "--processes", "2"], {
    env: { PATH, KEK: randomKek("k1") },
    stdio: ["ignore", "pipe", "ignore"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  const exited = once(child, "exit");
  let serving = 0;
  for await (const line of createInterface(child.stdout)) {
    if (line.includes('"gRPC on ') && ++serving === 2) break;
  }
  expect(serving).toBe(2);
  child.stdout.resume();
  child.kill("SIGTERM");
  expect(await exited).toEqual([0, null]);
}, 60_000);

test("servers may share a port when they are told to, and not otherwise", async () => {
  const site = {
    rpcs: new Map(),
    fetch: async () => new Response("ok"),
    log: createEventRecorder(),
  };
  const shared = { host: "127.0.0.1", port: 0, reusePort: true };
  const first = await listenInPlaintext(site, shared);
  const { port } = first.address;
  const second = await listenInPlaintext(site, { ...shared, port });
  await expect(listenInPlaintext(site, { host: "127.0.0.1", port })).rejects.toThrow("EADDRINUSE");
  await Promise.all([first.close(100), second.close(100)]);
});
