import { join } from "node:path";
import { expect, test } from "vitest";
import { run } from "../testkit/programs/child-process.ts";

test.each<[number, ...string[]]>([
  [0, "--help"],
  [2, "every", "1e3"],
])(
  "ends with %d for the words %s %s, plays nothing, and says what it takes",
  async (code, ...words) => {
    const main = join(import.meta.dirname, "main.ts");
    const { exitCode, stdout } = await run(process.execPath, [main, ...words]);
    expect([exitCode, stdout]).toEqual([code, expect.stringContaining("-- every [<count>]")]);
    expect(stdout).not.toContain("kept every invariant");
  },
);
