import { readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { configOf, openDeployment } from "../../../src/cli/session/deployment.ts";
import { operatorErrorOf } from "../../testkit/pki/plugged-in.ts";
import {
  createOperatorFolder,
  type OperatorFolder,
  rampartHere,
  withConfiguration,
} from "../../testkit/programs/command-line.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

const now = new Date("2026-11-21T12:00:00Z");

async function folderOf(toml: string, secrets?: string): Promise<OperatorFolder> {
  const folder = await createOperatorFolder(toml);
  onTestFinished(() => rm(folder.path, { recursive: true, force: true }));
  if (secrets !== undefined) await writeFile(join(folder.path, ".dev.vars"), secrets);
  return folder;
}

/** The configuration and secrets of an operator, and the lines of the error. */
const mistakes: Readonly<Record<string, readonly [string, string | undefined, RegExp[]]>> = {
  "no KEK": [
    withConfiguration("", ""),
    "",
    [/configuration is invalid:$/, /^KEK: is required$/, /^KEK: it belongs into \.dev\.vars/],
  ],
  "a KEK that is too short": [
    withConfiguration("", ""),
    'KEK="k1:c2VjcmV0"',
    [/configuration is invalid:$/, /^KEK: must be <id>:<base64 of 32 random bytes>/],
  ],
  "two faults": [
    withConfiguration('"cluster.local"', '"Cluster Local"').replace("https://issuer", "http://i"),
    undefined,
    [
      /configuration is invalid:$/,
      /^TRUST_DOMAIN: must be a SPIFFE trust domain/,
      /^ISSUERS\[0\].issuer:/,
    ],
  ],
  "no namespace": [
    withConfiguration(/\[\[kv_namespaces]][^[]*/, ""),
    undefined,
    [/binds no KV namespace AUTHORITIES$/],
  ],
  "no TOML": [
    withConfiguration("[vars]", "[vars"),
    undefined,
    [/wrangler\.toml:\d+:\d+: is not TOML$/],
  ],
};

test.each(Object.entries(mistakes))("says what is wrong: %s", async (_, [toml, secrets, lines]) => {
  const { config } = await folderOf(toml, secrets);
  const told = await operatorErrorOf(() => openDeployment({ config }, {}, now));
  expect(told).toEqual(lines.map((line) => expect.stringMatching(line)));
  expect(told.join()).not.toMatch(/c2VjcmV0|secret/);
});

test.each([false, true])("refuses secrets among variables, remote: %s", async (remote) => {
  const written = `[vars]\nKEK = "k1:c2VjcmV0"\nCONSOLE_TOKENS = "${"t".repeat(40)}"`;
  const { config } = await folderOf(withConfiguration("[vars]", written));
  const told = await operatorErrorOf(() => openDeployment({ config, remote }, {}, now));
  expect(told).toEqual([
    expect.stringMatching(/^KEK: is a secret, which belongs in `wrangler secret put`/),
    expect.stringMatching(/^ +CONSOLE_TOKENS: is a secret/),
  ]);
  expect(told.join()).not.toMatch(/c2VjcmV0|tttt/);
});

test("refuses an environment that the configuration lacks", async () => {
  const bare = await folderOf(withConfiguration("", ""));
  const other = await folderOf(withConfiguration(/$/, "\n[env.staging]\n"));
  for (const { config } of [bare, other]) {
    for (const remote of [false, true]) {
      const lines = await operatorErrorOf(() =>
        openDeployment({ config, env: "prod", remote }, {}, now),
      );
      expect(lines.join()).toMatch(/has no environment prod$|No environment found/);
    }
  }
});

test("asks for a configuration that does not exist, and finds none in a folder", async () => {
  const folder = await temporaryFolder();
  const told = await operatorErrorOf(() => openDeployment({ config: folder }, {}, now));
  expect(told).toEqual([`${folder} binds no KV namespace AUTHORITIES`]);
  expect(await operatorErrorOf(() => openDeployment({ config: "nowhere.toml" }, {}, now))).toEqual([
    "nowhere.toml does not exist: name the configuration with --config",
  ]);
});

describe("the configuration of a verb that names none", () => {
  test.each(["wrangler.toml", "rampart.toml"])("is the only usual one here: %s", async (file) => {
    const folder = await temporaryFolder();
    await writeFile(join(folder, file), "");
    expect(configOf({}, folder)).toBe(file);
  });

  test("is refused where the folder has two files of configuration, or none", async () => {
    const folder = await temporaryFolder();
    expect(() => configOf({}, folder)).toThrow(/^neither wrangler.toml nor rampart.toml is in/);
    for (const file of ["wrangler.toml", "rampart.toml"]) await writeFile(join(folder, file), "");
    expect(() => configOf({}, folder)).toThrow(/which are two CAs: choose one with --config$/);
  });
});

test("takes the KEK for the deployed namespace from the environment alone", async () => {
  const { config } = await folderOf(withConfiguration("", ""));
  const lines = await operatorErrorOf(() => openDeployment({ config, remote: true }, {}, now));
  expect(lines.at(-1)).toMatch(/^KEK: set the environment variable KEK/);
});

/** Every file of a folder with its octets and when it was changed, but for what programs put at home. */
async function contentOf(folder: string): Promise<readonly (readonly [string, string])[]> {
  const names = (await readdir(folder, { recursive: true })).filter((name) => !/^home/.test(name));
  const entries = names.toSorted().map(async (name) => {
    const path = join(folder, name);
    const status = await stat(path);
    const content = status.isFile() ? (await readFile(path)).toString("base64") : "";
    return [name, `${status.mtimeMs} ${content}`] as const;
  });
  return Promise.all(entries);
}

test("a dry run on the local state of a Worker writes nothing, neither into an empty folder nor beside a store", async () => {
  const operator = await folderOf(withConfiguration("", ""));
  const run = (words: string) => rampartHere(operator, `authority ${words} -c ${operator.config}`);
  const before = await contentOf(operator.path);
  expect((await run("init --dry-run")).code).toBe(0);
  expect(await contentOf(operator.path)).toEqual(before);
  expect((await run("init --yes")).code).toBe(0);
  const held = await contentOf(operator.path);
  const { code, stdout } = await run("rotate --dry-run");
  expect(code).toBe(0);
  expect(stdout).toContain("Nothing was written.");
  // The dry run saw the store.
  expect(stdout.match(/EC-P256/g)).toHaveLength(2);
  expect(await contentOf(operator.path)).toEqual(held);
});
