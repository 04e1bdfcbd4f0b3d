import { join } from "node:path";
import { expect, test } from "vitest";
import { run } from "../testkit/programs/child-process.ts";

test.each([
  ["--help", 0],
  ["many", 2],
  ["1e3", 2],
])("`npm run simulate -- %s` lives through nothing, and says what it takes", async (word, code) => {
  const main = join(import.meta.dirname, "main.ts");
  const { exitCode, stdout } = await run(process.execPath, [main, word]);
  expect([exitCode, stdout]).toEqual([code, expect.stringContaining("so many, from this seed on")]);
  expect(stdout).not.toContain("kept every invariant");
});
