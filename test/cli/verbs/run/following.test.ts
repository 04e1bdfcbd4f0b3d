import { execFileSync } from "node:child_process";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { serveToml, startRampart } from "../../../testkit/programs/rampart-process.ts";
import { temporaryFolder } from "../../../testkit/temporary-folder.ts";
import { eventually } from "../../../testkit/time/eventually.ts";

test("SIGHUP ends no program that starts, and reads no pipe a second time", async () => {
  const folder = await temporaryFolder();
  const config = join(folder, "rampart.toml");
  execFileSync("mkfifo", [config]);
  const child = startRampart(["serve", "-c", config]);
  const output = (): string => child.lines.join("\n");
  // It opens once the program waits for its configuration.
  const pipe = await open(config, "w");
  child.send("SIGHUP");
  const values = { PROPAGATION_INTERVAL: "0s", ISSUERS: [{ issuer: "https://a.test" }] };
  await pipe.writeFile(serveToml(join(folder, "store"), values));
  await pipe.close();
  await eventually(() => expect(output()).toMatch(/"gRPC on /));
  child.send("SIGHUP");
  await eventually(() => expect(output()).toMatch(/"a pipe is read at the start alone"/));
  child.send("SIGTERM");
  expect(await child.ended).toMatchObject({ exitCode: 0 });
});

test.each(["gateway", "distribute", "signer"])(
  "SIGHUP does not end %s while it waits for its configuration",
  async (verb) => {
    const config = join(await temporaryFolder(), "program.toml");
    execFileSync("mkfifo", [config]);
    const child = startRampart([verb, "-c", config]);
    const pipe = await open(config, "w");
    child.send("SIGHUP");
    await pipe.writeFile("[[ISSUERS");
    await pipe.close();
    expect(await child.ended).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining("is not TOML"),
    });
  },
);
