import { execFile } from "node:child_process";
import { cp, readFile, symlink, writeFile } from "node:fs/promises";
import { isBuiltin } from "node:module";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { beforeAll, expect, test } from "vitest";
import { writePackage } from "../../../dev/package/package.ts";
import { lastingFolder } from "../../testkit/temporary-folder.ts";

const run = promisify(execFile);
const pages = ["package.json", "README.md", "CHANGELOG.md", "LICENSE"];

let folder = "";
let outside: ReadonlySet<string> = new Set();

beforeAll(async () => {
  folder = await lastingFolder();
  for (const file of pages) await cp(resolve(file), join(folder, file));
  outside = await writePackage(join(folder, "dist"));
  await symlink(resolve("node_modules"), join(folder, "node_modules"));
});

interface Archive {
  readonly size: number;
  readonly files: readonly { readonly path: string }[];
}

test("the archive holds what runs, its types and its pages, in less than 1,120 kB", async () => {
  const values = ["pack", "--dry-run", "--json", "--ignore-scripts"];
  const { stdout } = await run("npm", values, { cwd: folder });
  const [archive] = Object.values(JSON.parse(stdout) as Record<string, Archive>);
  const paths = archive?.files.map(({ path }) => path) ?? [];
  const folders =
    /^dist\/(?:program|worker|console\/console)\/[\w-]+\.js$|^dist\/types\/[\w/-]+\.d\.ts$/;
  expect(paths.filter((path) => !folders.test(path)).toSorted()).toEqual(
    [
      ...pages,
      "dist/THIRD_PARTY_NOTICES.txt",
      "dist/client.js",
      "dist/lambda.js",
      "dist/rampart.js",
      "dist/rampart-dev.js",
      "dist/worker.js",
      "dist/worker-with-console.js",
      "dist/worker-with-keys.js",
      "dist/worker-with-log.js",
    ].toSorted(),
  );
  const { exports } = JSON.parse(await readFile(resolve("package.json"), "utf8"));
  const exported = Object.values(exports as Record<string, string | Record<string, string>>)
    .flatMap((each) => (typeof each === "string" ? each : Object.values(each)))
    .map((path) => path.replace("./", ""));
  expect(exported.filter((path) => !paths.includes(path))).toEqual([]);
  expect(paths.length).toBeLessThan(240);
  expect(archive?.size).toBeLessThan(1_120_000);
});

test("what is bundled imports nothing that an installation lacks", async () => {
  const { dependencies } = JSON.parse(await readFile(resolve("package.json"), "utf8"));
  const missing = [...outside].filter(
    (path) =>
      !isBuiltin(path) &&
      !path.startsWith("cloudflare:") &&
      !Object.keys(dependencies).some((name) => path === name || path.startsWith(`${name}/`)),
  );
  expect(missing).toEqual([]);
});

const workerOf = (argument: string): string => `import worker from "@rampart-ca/rampart/worker";
  export { default, IssuanceLogShard } from "@rampart-ca/rampart/worker-with-log";
  export const answer: Promise<Response> = worker.fetch(${argument}, {});\n`;

const clientOf = (
  url: string,
): string => `import { createClient } from "@rampart-ca/rampart/client";
  const client = createClient({ url: ${url}, token: () => "a", trustDomain: "cluster.local", fetch });
  export const signature: Promise<ArrayBuffer> = client
    .issue()
    .then(({ privateKey }) => crypto.subtle.sign("Ed25519", privateKey, new Uint8Array()));\n`;

const goodUses = {
  client: clientOf(`"https://ca.example.com"`),
  worker: workerOf(`new Request("https://ca.example.com/")`),
};
const wrongUses = { client: clientOf("1"), worker: workerOf("1") };
const codes = { client: "TS2322", worker: "TS2345" };

test.each([
  ["a Worker that has the CA, and one that calls it", "@cloudflare/workers-types", goodUses],
  ["a program of Node that calls it", "node", { client: goodUses.client }],
])("the declarations type %s, and refuse a wrong use", async (_what, platform, good) => {
  const names = Object.keys(good) as (keyof typeof goodUses)[];
  for (const name of names) {
    await writeFile(join(folder, `good-${name}.ts`), goodUses[name]);
    await writeFile(join(folder, `wrong-${name}.ts`), wrongUses[name]);
  }
  // With the libraries, and in one process, because these take most of the time.
  const options = [
    ...["--noEmit", "--strict", "--target", "es2024", "--lib", "es2024,esnext.disposable"],
    ...["--module", "esnext", "--moduleResolution", "bundler", "--types", platform],
    ...names.flatMap((name) => [`good-${name}.ts`, `wrong-${name}.ts`]),
  ];
  const checked = run(resolve("node_modules/.bin/tsc"), options, { cwd: folder });
  const { stdout } = await checked.catch((error: { readonly stdout: string }) => error);
  const faults = [...stdout.matchAll(/^(?:([^(\n]+)\(.*: )?error (TS\d+)/gm)];
  expect(faults.map(([, file, code]) => `${file} ${code}`).toSorted()).toEqual(
    names.map((name) => `wrong-${name}.ts ${codes[name]}`),
  );
});

test("the client takes 100 KiB with its libraries at most, compressed", async () => {
  const entry = join(folder, "dist/client.js");
  const options = { bundle: true, minify: true, write: false, format: "esm" } as const;
  const { outputFiles } = await build({ ...options, entryPoints: [entry], platform: "browser" });
  const [bundle] = outputFiles;
  expect(gzipSync(bundle?.contents ?? "").length / 1024).toBeLessThan(100);
});

test("the bundled program runs", async () => {
  const program = join(folder, "dist/rampart.js");
  await run(process.execPath, [program, "init", join(folder, "project")]);
  const page = await run(process.execPath, [program, "docs", "troubleshoot"]);
  expect(page.stdout).toBe(await readFile(resolve("docs/how-to/troubleshoot.md"), "utf8"));
});
