import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { serveToml, startRampart } from "../../../testkit/programs/rampart-process.ts";
import { temporaryFolder } from "../../../testkit/temporary-folder.ts";

let config: string;

beforeEach(async () => {
  const folder = await temporaryFolder();
  config = join(folder, "rampart.toml");
  const values = { AUTHORITY_KEY: "RSA-4096", ISSUERS: [{ issuer: "https://a.test" }] };
  await writeFile(config, serveToml(join(folder, "store"), values));
});

describe.each(["SIGINT", "SIGTERM"] as const)("%s", (signal) => {
  test("while serve founds its first authority ends it with a sentence, and no trace", async () => {
    const { onLine, send, ended, lines: said } = startRampart(["serve", "-c", config]);
    onLine((line) => {
      if (line.includes("monitoring on")) send(signal);
    });
    expect(await ended).toMatchObject({ exitCode: 0 });
    // The error stream has warnings of the log, and nothing else.
    expect(said.filter((line) => line.includes(`"event":"ending"`))).toEqual([
      expect.stringContaining(signal),
    ]);
    expect(said.filter((line) => !line.startsWith("{"))).toEqual([]);
  });
});
