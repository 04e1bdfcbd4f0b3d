import { readdir, readFile, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { randomKek } from "../../testkit/configuration.ts";
import { createOperatorFolder, rampartHere } from "../../testkit/programs/command-line.ts";
import { serveToml } from "../../testkit/programs/rampart-process.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

/** Every file of a folder with its octets and when it was changed, but for what programs put at home. */
async function contentOf(folder: string): Promise<readonly (readonly [string, string])[]> {
  const names = await readdir(folder, { recursive: true });
  const entries = names
    .filter((name) => !name.startsWith("home"))
    .map(async (name): Promise<readonly [string, string]> => {
      const path = join(folder, name);
      const status = await stat(path);
      const content = status.isFile() ? (await readFile(path)).toString("base64") : "";
      return [name, `${status.mtimeMs} ${content}`];
    });
  return (await Promise.all(entries)).toSorted(([a], [b]) => (a < b ? -1 : 1));
}

async function operatorOf(toml?: string) {
  const operator = await createOperatorFolder(toml);
  onTestFinished(() => rm(operator.path, { recursive: true, force: true }));
  return operator;
}

test("a dry run on the local state of a Worker writes nothing, neither into an empty folder nor beside a store", async () => {
  const operator = await operatorOf();
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

test("a dry run on files writes nothing, neither a folder nor a record", async () => {
  const place = await temporaryFolder();
  const store = join(place, "store");
  const toml = serveToml(store, {
    ISSUERS: [{ issuer: "https://a.test" }],
    SIGNERS: [
      { name: "s", callers: [{ issuer: "https://a.test", namespaces: ["*"], accounts: ["*"] }] },
    ],
  });
  const operator = await operatorOf(toml);
  const kek = { KEK: randomKek() };
  const run = (words: string) =>
    rampartHere(operator, `authority ${words} -c ${operator.config}`, kek);
  for (const words of ["init --dry-run", "init --dry-run --signer s"]) {
    expect((await run(words)).code).toBe(0);
    expect(await contentOf(place)).toEqual([]);
  }
  expect((await run("init --yes")).code).toBe(0);
  const held = await contentOf(place);
  const { code, stderr } = await run("init --dry-run");
  expect(code).toBe(1);
  expect(stderr).toContain("the store is not empty");
  expect(await contentOf(place)).toEqual(held);
});
