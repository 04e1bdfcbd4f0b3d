import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { beforeEach, describe, expect, test } from "vitest";
import { startRampart } from "../../../testkit/programs/rampart-process.ts";
import { serveToml } from "../../../testkit/programs/serve-process.ts";
import { temporaryFolder } from "../../../testkit/temporary-folder.ts";

interface Started {
  readonly child: ChildProcess;
  readonly exit: Promise<unknown[]>;
  readonly stderr: Promise<string>;
  readonly lines: AsyncIterable<string>;
}

function start(words: readonly string[]): Started {
  const child = startRampart(words);
  const lines = createInterface(child.stdout);
  return { child, exit: once(child, "exit"), stderr: text(child.stderr), lines };
}

let config: string;

beforeEach(async () => {
  const folder = await temporaryFolder();
  config = join(folder, "rampart.toml");
  const values = { AUTHORITY_KEY: "RSA-4096", ISSUERS: [{ issuer: "https://a.test" }] };
  await writeFile(config, serveToml(join(folder, "store"), values));
});

describe.each(["SIGINT", "SIGTERM"] as const)("%s", (signal) => {
  test("while serve founds its first authority ends it with a sentence, and no trace", async () => {
    const { child, exit, stderr, lines } = start(["serve", "-c", config]);
    const said: string[] = [];
    for await (const line of lines) {
      said.push(line);
      if (line.includes("monitoring on")) child.kill(signal);
    }
    expect(await exit).toEqual([0, null]);
    // The error stream has warnings of the log, and nothing else.
    said.push(...(await stderr).split("\n").filter((line) => line !== ""));
    expect(said.filter((line) => line.includes(`"event":"ending"`))).toEqual([
      expect.stringContaining(signal),
    ]);
    expect(said.filter((line) => !line.startsWith("{"))).toEqual([]);
  });
});
