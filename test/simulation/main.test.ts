import { join } from "node:path";
import { expect, test } from "vitest";
import { run } from "../testkit/programs/child-process.ts";

test.each([["1e3"], ["every", "1e3"]])(
  "%s %s plays nothing, and is no success",
  async (...words) => {
    const program = join(import.meta.dirname, "main.ts");
    const { exitCode, stdout } = await run(process.execPath, [program, ...words]);
    expect([exitCode, stdout]).toEqual([2, expect.stringContaining("-- every [<count>]")]);
  },
);
