import { readFileSync } from "node:fs";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { parse } from "smol-toml";
import { expect, test } from "vitest";
import { packageName, projectFiles } from "../../../../src/cli/verbs/init/init.ts";
import { wranglerToml } from "../../../../src/cli/verbs/init/wrangler-toml.ts";
import { wranglerVersion } from "../../../../src/cli/versions.ts";
import { version } from "../../../../src/foundation/build.ts";
import { run } from "../../../testkit/programs/child-process.ts";
import {
  createOperatorFolder,
  rampart,
  rampartHere,
} from "../../../testkit/programs/command-line.ts";
import { program } from "../../../testkit/programs/rampart-process.ts";

const manifest = JSON.parse(readFileSync(resolve("package.json"), "utf8"));
const fileOf = (path: string, name = "my-ca"): string =>
  projectFiles({ name, rampart: version, wranglerToml }).get(path) ?? "";

test("the program knows its name, its version and the wrangler of the tests", () => {
  const { wrangler } = manifest.devDependencies;
  expect([packageName, version, wranglerVersion]).toEqual([
    manifest.name,
    manifest.version,
    wrangler,
  ]);
});

test("a project's configuration is the repository's, but for name and main module", () => {
  const own = parse(wranglerToml);
  expect(parse(fileOf("wrangler.toml"))).toEqual({ ...own, name: "my-ca", main: "src/worker.ts" });
});

test("a project's configuration marks each example value, and names no file of the repository", () => {
  const text = fileOf("wrangler.toml");
  expect(text.match(/^# SET .*/gm)?.length).toBe(5);
  expect(text).not.toContain("src/worker/");
  // Nobody knows the day of its first deployment yet.
  expect(text).toMatch(/^# INCEPTION_DATE = /m);
});

test("a project depends on the package and on wrangler alone", () => {
  const { name, dependencies, devDependencies } = JSON.parse(fileOf("package.json"));
  expect(name).toBe("my-ca");
  expect(dependencies).toEqual({ [packageName]: version });
  expect(devDependencies).toEqual({ wrangler: wranglerVersion });
});

test("a project decides about every script that its packages would run when npm installs them", async () => {
  const lock = JSON.parse(await readFile(resolve("package-lock.json"), "utf8"));
  const scripted = new Set<string>();
  const seen = new Set<string>();
  const visit = (name: string): void => {
    const found = lock.packages[`node_modules/${name}`];
    if (!found || seen.has(name)) return;
    seen.add(name);
    if (found.hasInstallScript) scripted.add(name);
    Object.keys({ ...found.dependencies, ...found.optionalDependencies }).forEach(visit);
  };
  const { allowScripts, devDependencies } = JSON.parse(fileOf("package.json"));
  Object.keys({ ...devDependencies, ...manifest.dependencies }).forEach(visit);
  expect(allowScripts).toEqual(Object.fromEntries([...scripted].map((name) => [name, false])));
});

test("a project ignores the secrets and the state of development", () => {
  expect(fileOf(".gitignore").split("\n")).toEqual(
    expect.arrayContaining([".dev.vars", ".wrangler/"]),
  );
});

test("refuses a configuration that lacks a line which a project has otherwise", () => {
  const lacking = wranglerToml.replace("src/worker/main.ts", "src/other.ts");
  expect(() => projectFiles({ name: "a", rampart: version, wranglerToml: lacking })).toThrow(
    "does not have",
  );
});

test("rampart init writes a project into a folder that does not exist, and names a Worker after it", async () => {
  const folder = await createOperatorFolder();
  const { code, stdout } = await rampart(folder, "init edge-ca");
  expect(code).toBe(0);
  expect(stdout).toContain("cd edge-ca && npm install && npm start");
  const files = await readdir(join(folder.path, "edge-ca"), { recursive: true });
  expect(files.toSorted().join(" ")).toBe(
    ".gitignore README.md package.json src src/worker.ts wrangler.toml",
  );
  const text = await readFile(join(folder.path, "edge-ca/wrangler.toml"), "utf8");
  expect(parse(text)).toMatchObject({ name: "edge-ca" });
});

test("rampart init names a Worker rampart if the folder's name cannot be a Worker's", async () => {
  const folder = await createOperatorFolder();
  await rampartHere(folder, "init ./My_CA");
  const text = await readFile(join(folder.path, "My_CA/wrangler.toml"), "utf8");
  expect(parse(text)).toMatchObject({ name: "rampart" });
});

test("rampart init refuses a folder that is not empty, and a file in its place, without a stack", async () => {
  const folder = await createOperatorFolder();
  await mkdir(join(folder.path, "full"));
  await writeFile(join(folder.path, "full/notes.txt"), "mine");
  const { code, stdout, stderr } = await rampartHere(folder, "init ./full");
  expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
  expect(stderr).toContain("full is not empty (notes.txt): init only writes into an empty folder");
  expect(await readdir(join(folder.path, "full"))).toEqual(["notes.txt"]);
  const taken = await rampartHere(folder, "init ./wrangler.toml");
  expect(taken.code).toBe(1);
  expect(taken.stderr).toMatch(/^rampart: .*wrangler\.toml: it exists already\n$/);
});

test("rampart init that cannot write leaves no folder of its own, and an empty one empty", async () => {
  const { path } = await createOperatorFolder();
  await mkdir(join(path, "mine"));
  for (const folder of ["a/b", "mine"]) {
    // No process writes an octet into a file: as on a full disk.
    const words = `ulimit -f 0; exec "${process.execPath}" "${program}" init ${folder}`;
    const { exitCode, stdout, stderr } = await run("bash", ["-c", words], { folder: path });
    expect({ exitCode, stdout }).toEqual({ exitCode: 1, stdout: "" });
    expect(stderr).toMatch(/^rampart: .+\n$/);
  }
  expect(await readdir(path)).not.toContain("a");
  expect(await readdir(join(path, "mine"))).toEqual([]);
});

test("rampart init --package has npm install that file, and refuses what is no file", async () => {
  const folder = await createOperatorFolder();
  await rampartHere(folder, "init ./a --package ./wrangler.toml");
  const text = await readFile(join(folder.path, "a/package.json"), "utf8");
  const { [packageName]: installed } = JSON.parse(text).dependencies;
  // Where the project and the archive move together, it still is there.
  expect(installed).toBe("file:../wrangler.toml");
  const { code, stdout, stderr } = await rampartHere(folder, "init ./b --package ./home");
  expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
  expect(stderr).toMatch(/^rampart: --package: \S+home is not a file\n$/);
  expect(await readdir(folder.path)).not.toContain("b");
});
