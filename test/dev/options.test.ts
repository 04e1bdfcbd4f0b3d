import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { run } from "../testkit/programs/child-process.ts";

// The programs of package.json that take words, or none.

test.each([
  "bench/main.ts",
  "bench/peers/main.ts",
  "bench/policy/main.ts",
  "bench/tenant-isolation/main.ts",
  "test/interop/fuzz/main.ts",
  "test/soak/main.ts",
])("%s has parseArgs refuse what it does not take", (program) => {
  const text = readFileSync(program, "utf8");
  expect(text).toMatch(/optionsOf\([\s\S]*parseArgs\(/);
  expect(text).not.toContain("strict");
});

test.each([
  "bench/floods/main.ts",
  "test/fuzz/main.ts",
  "test/interop/main.ts",
  "test/mutants/main.ts",
  "test/simulation/main.ts",
])("%s answers an option that it does not have with its usage", async (program) => {
  const { exitCode, stdout, stderr } = await run(process.execPath, [program, "--cuont"]);
  expect([exitCode, stdout + stderr]).toEqual([
    2,
    expect.stringMatching(/^(?:npm run|node test)/m),
  ]);
  expect(stderr).not.toMatch(/^ {4}at /m);
});
