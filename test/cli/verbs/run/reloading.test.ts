import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { randomKek } from "../../../testkit/ca/running-ca.ts";
import { compileCache } from "../../../testkit/programs/compile-cache.ts";
import { serveToml } from "../../../testkit/programs/serve-process.ts";
import { temporaryFolder } from "../../../testkit/temporary-folder.ts";
import { eventually } from "../../../testkit/time/eventually.ts";

const program = join(import.meta.dirname, "../../../../src/cli/main.ts");

test("SIGHUP ends no program that starts, and reads no pipe a second time", async () => {
  const folder = await temporaryFolder();
  const config = join(folder, "rampart.toml");
  execFileSync("mkfifo", [config]);
  const { PATH } = process.env;
  const child = spawn(process.execPath, [program, "serve", "-c", config], {
    env: { PATH, KEK: randomKek("k1"), ...compileCache },
    stdio: ["ignore", "pipe", "pipe"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  let text = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (chunk: string) => {
      text += chunk;
    });
  }
  // It opens once the program waits for its configuration.
  const pipe = await open(config, "w");
  child.kill("SIGHUP");
  const values = { PROPAGATION_INTERVAL: "0s", ISSUERS: [{ issuer: "https://a.test" }] };
  await pipe.writeFile(serveToml(join(folder, "store"), values));
  await pipe.close();
  await eventually(() => expect(text).toMatch(/"gRPC on /));
  child.kill("SIGHUP");
  await eventually(() => expect(text).toMatch(/"a pipe is read at the start alone"/));
  child.kill("SIGTERM");
  expect(await once(child, "exit")).toEqual([0, null]);
});
