import { describe, expect, test } from "vitest";
import { readKept } from "./campaign/kept-vectors.ts";
import { targetNames, targets } from "./targets/targets.ts";

/** Every input that a campaign once found wanting, and one for each outcome. */
describe.each(targetNames)("an input of the target %s", async (name) => {
  const target = await targets[name]();
  test.each(await readKept(name))("is judged rightly: $name", async ({ input, outcome }) => {
    const seen = await target.judge(Buffer.from(input, "base64"));
    if (outcome !== undefined) expect(seen).toBe(outcome);
  });
});
