import { join } from "node:path";
import { expect, test } from "vitest";
import { run } from "../testkit/programs/child-process.ts";

const root = join(import.meta.dirname, "../..");

/** What Node runs first, so that a program takes it for another version. */
const pretending = (version: string): string =>
  `data:text/javascript,Object.defineProperties(process, {
    version: { value: "v${version}" },
    versions: { value: { ...process.versions, node: "${version}" } },
  })`;

test.each([
  ["rampart", "src/cli/launch.ts"],
  ["rampart-dev", "dev/launch.ts"],
])("%s says on an old Node which one it needs, and does nothing", async (name, program) => {
  const words = ["--import", pretending("24.20.0"), join(root, program), "--version"];
  expect(await run(process.execPath, words)).toMatchObject({
    exitCode: 1,
    stdout: "",
    stderr: `${name}: needs Node 24.21 or newer, and this is v24.20.0\n`,
  });
});

test("rampart runs on a Node that is new enough", async () => {
  const words = ["--import", pretending("24.21.0"), join(root, "src/cli/launch.ts"), "--version"];
  expect(await run(process.execPath, words)).toMatchObject({ exitCode: 0, stderr: "" });
});
