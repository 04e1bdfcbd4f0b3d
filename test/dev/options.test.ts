import { expect, test } from "vitest";
import { run } from "../testkit/programs/child-process.ts";

/** The programs of package.json that take words, or none. */
const programs = [
  "bench/main.ts",
  "bench/peers/main.ts",
  "bench/floods/main.ts",
  "bench/policy/main.ts",
  "bench/tenant-isolation/main.ts",
  "test/fuzz/main.ts",
  "test/interop/main.ts",
  "test/interop/fuzz/main.ts",
  "test/mutants/main.ts",
  "test/simulation/main.ts",
  "test/soak/main.ts",
];

test.each(programs)(
  "%s answers an option that it does not have with its usage",
  async (program) => {
    const { exitCode, stdout, stderr } = await run(process.execPath, [program, "--cuont"]);
    expect([exitCode, stdout + stderr]).toEqual([
      2,
      expect.stringMatching(/^(?:npm run|node test)/m),
    ]);
    expect(stderr).not.toMatch(/^ {4}at /m);
  },
);
