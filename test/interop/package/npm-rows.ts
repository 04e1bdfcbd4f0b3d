import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { run, runWell } from "../../testkit/programs/child-process.ts";
import type { Row } from "../outcome-table.ts";
import { type Installation, installedPackages } from "./installation.ts";
import { serveAndIssue } from "./issuance.ts";

const quiet = { CLOUDFLARE_CF_FETCH_ENABLED: "false", WRANGLER_SEND_METRICS: "false" };

/** What somebody does who has Node, npm and the archive. */
export function npmRows(installation: Installation, folder: string): readonly Row[] {
  const { program, path } = installation;
  const environment = { PATH: path, HOME: folder, ...quiet };
  return [
    ["installs what runs, and no tool of the repository", () => requireFewPackages(installation)],
    [
      "says its version and its commands",
      async () => {
        const { version } = JSON.parse(await readFile("package.json", "utf8"));
        const printed = await runWell(program, ["--version"], { environment });
        assert.match(printed, /^\d+\.\d+\.\d+ \([0-9a-f]{12}\+?\)\n$/);
        assert(printed.startsWith(`${version} `), printed);
        assert.match(await runWell(program, ["--help"], { environment }), /^ {2}serve /m);
        const slip = await run(program, ["sevre"], { environment });
        assert.deepEqual([slip.exitCode, slip.stdout], [2, ""]);
        assert.match(slip.stderr, /'sevre'\n\(Did you mean serve\?\)\n\(--help shows/);
      },
    ],
    [
      "serves, and issues a certificate",
      () => serveAndIssue(join(folder, "serve"), { command: [program], environment }),
    ],
    [
      "says what a Worker's store takes, where it is not installed",
      async () => {
        await writeFile(join(installation.folder, "wrangler.toml"), 'name = "a"\n');
        const words = ["authority", "list"];
        const { stderr, exitCode } = await run(program, words, {
          folder: installation.folder,
          environment,
        });
        assert.equal(exitCode, 1);
        assert.match(
          stderr,
          /^rampart: a Worker's store takes wrangler, which is not installed in/,
        );
      },
    ],
  ];
}

async function requireFewPackages({ folder }: Installation): Promise<void> {
  const { dependencies } = JSON.parse(await readFile("package.json", "utf8"));
  const installed = await installedPackages(folder);
  for (const name of Object.keys(dependencies)) assert(installed.includes(name), name);
  const tools = /^(?:wrangler|workerd|miniflare|vitest|typescript|esbuild|node-linux-\w+)$/;
  assert.deepEqual(
    installed.filter((name) => tools.test(name)),
    [],
  );
  assert(installed.length < 60, `${installed.length} packages`);
}
