import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { blocksUnder, textsIn } from "../../pages/page-blocks.ts";
import { run, runWell } from "../../testkit/programs/child-process.ts";
import { startDevelopment } from "../../testkit/programs/npm-start.ts";
import type { Row } from "../outcome-table.ts";
import { type Installation, install, installedPackages } from "./installation.ts";
import { serveAndIssue } from "./issuance.ts";

const quiet = { CLOUDFLARE_CF_FETCH_ENABLED: "false", WRANGLER_SEND_METRICS: "false" };

/** What somebody does who has Node, npm and the archive. */
export function npmRows(installation: Installation, folder: string): readonly Row[] {
  const { program, path } = installation;
  const environment = { PATH: path, HOME: folder, ...quiet };
  const project = join(folder, "my-ca");
  const inProject = { folder: project, environment, timeoutSeconds: 120 };
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
    [
      "npx writes a project, and not into a folder with files",
      async () => {
        const { archive } = installation;
        const values = ["--yes", "--package", archive, "rampart", "init", "my-ca"];
        values.push("--package", archive);
        await runWell("npx", values, { folder, environment, timeoutSeconds: 300 });
        const again = await run("npx", values, { folder, environment, timeoutSeconds: 300 });
        assert.equal(again.exitCode, 1);
        assert.match(again.stderr, /my-ca is not empty/);
      },
    ],
    [
      "wrangler takes the project, and the check names the examples that are left in it",
      async () => {
        await install({ path, folder: project });
        const { stdout, exitCode } = await run("npm", ["run", "check"], inProject);
        assert.equal(exitCode, 4);
        assert.match(stdout, /env\.AUTHORITIES .*KV Namespace/);
        assert.match(stdout, /has the example issuer https:\/\/issuer\.example\.com/);
      },
    ],
    [
      "npm start issues a certificate from the project's Worker, and the tutorial another",
      () => startProject(inProject),
    ],
    [
      "the command reads the state of the project's Worker",
      async () => {
        const values = ["run", "-s", "rampart", "--", "authority", "list", "--json"];
        const authorities = JSON.parse(await runWell("npm", values, inProject));
        assert.equal(authorities.length, 1);
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

interface InProject {
  readonly folder: string;
  readonly environment: Readonly<Record<string, string>>;
}

const tutorial = "docs/tutorials/first-certificate.md";

/** Waits for the first certificate, which `npm start` verifies by itself, and goes on with the tutorial. */
async function startProject({ folder, environment }: InProject): Promise<void> {
  const { lines, interrupt } = await startDevelopment(folder, environment);
  const type = async (heading: string): Promise<string> => {
    const script = textsIn(await blocksUnder(tutorial, heading), "sh").join("");
    return runWell("sh", ["-euc", script], { folder, environment, timeoutSeconds: 120 });
  };
  try {
    const spiffeId = "spiffe://cluster.local/ns/shop/sa/cart";
    assert.match(
      await type("2. Ask for a certificate yourself"),
      new RegExp(`^${spiffeId}, until`),
    );
    assert.match(await type("3. Look at it"), new RegExp(`SPIFFE ID +${spiffeId}\n`));
  } finally {
    await interrupt();
  }
  assert.match(lines.join("\n"), /SPIFFE ID +spiffe:\/\/cluster\.local\/ns\/foo\/sa\/httpbin/);
}
