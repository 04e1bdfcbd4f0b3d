import assert from "node:assert/strict";
import { copyFile, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { run, runWell } from "../../testkit/programs/child-process.ts";
import { serveAndIssue } from "./issuance.ts";
import type { Row } from "./npm-rows.ts";

const root = join(import.meta.dirname, "../../..");

/** What somebody does who has the executable, and no Node. */
export function executableRows(folder: string): readonly Row[] {
  const program = join(folder, "rampart");
  const alone = { command: [program], environment: { PATH: "" } } as const;
  return [
    [
      "npm run executable writes one file",
      async () => {
        await runWell("npm", ["run", "executable"], { folder: root, timeoutSeconds: 300 });
        const [built, ...others] = await readdir(join(root, "out"));
        assert(built && others.length === 0, `${built} and ${others}`);
        await copyFile(join(root, "out", built), program);
      },
    ],
    [
      "says its version, and warns of nothing",
      async () => {
        const { stdout, stderr, exitCode } = await run(program, ["--version"], {
          environment: { PATH: "" },
        });
        assert.match(stdout, /^\d+\.\d+\.\d+ \([0-9a-f]{12}\+?\)\n$/);
        assert.deepEqual({ stderr, exitCode }, { stderr: "", exitCode: 0 });
      },
    ],
    [
      "serves without a PATH, and issues a certificate",
      () => serveAndIssue(join(folder, "alone"), alone),
    ],
    [
      "serves from two processes",
      () => serveAndIssue(join(folder, "two"), alone, ["--processes", "2"]),
    ],
    [
      "prints its unit for systemd",
      async () => {
        const { stdout } = await run(program, ["serve", "--unit"], { folder });
        assert.equal(stdout, await readFile("deploy/rampart-serve.service", "utf8"));
      },
    ],
    [
      "refuses a configuration that is not there, in a sentence",
      async () => {
        const { stderr, exitCode } = await run(program, ["serve", "-c", "nowhere.toml"], {
          folder,
        });
        assert.equal(exitCode, 1);
        assert.match(stderr, /^rampart: .*nowhere\.toml/);
        assert.doesNotMatch(stderr, /\n {4}at /);
      },
    ],
  ];
}
