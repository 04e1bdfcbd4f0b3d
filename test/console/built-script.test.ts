import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { buildConsole } from "../../dev/build-console.ts";
import { script } from "../../src/gen/console/script.ts";
import { scriptIntegrity, scriptPath } from "../../src/gen/console/script-name.ts";

test("the script in the repository is that of its sources: `npm run generate` makes it", async () => {
  for (const [name, text] of Object.entries(await buildConsole())) {
    const there = readFileSync(new URL(`../../src/gen/console/${name}`, import.meta.url), "utf8");
    // Not toBe: the difference of two scripts would fill the screen.
    expect(there === text, name).toBe(true);
  }
});

test("its path and its integrity are of its digest", () => {
  const digest = createHash("sha256").update(script).digest();
  expect(scriptPath).toBe(`/console/${digest.toString("hex").slice(0, 16)}.js`);
  expect(scriptIntegrity).toBe(`sha256-${digest.toString("base64")}`);
});
