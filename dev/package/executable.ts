import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { copyFile, mkdir, mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { build, transform } from "esbuild";
import { commonOptions, target, withStandIns } from "./bundle.ts";
import { startFlags } from "./node-flags.ts";

const root = join(import.meta.dirname, "../..");
const architectures = ["x64", "arm64"] as const;
type Architecture = (typeof architectures)[number];

/**
 * The first module. Node runs the program in an executable as one CommonJS module, and V8 would keep its two million
 * octets in every process: an agent needs a third of them, and no code of a cache. So each module is an asset.
 *
 * esbuild's exports are getters, by which a hash in another module costs twenty times as much. None changes once its
 * module has run, so their values take their place.
 */
const loader = `const { compileFunction } = require("node:vm");
const { getRawAsset } = require("node:sea");
const url = require("node:url").pathToFileURL(process.execPath).href;
const folder = require("node:path").dirname(process.execPath);
const parameters = ["exports", "require", "module", "importMetaUrl", "importMetaDirname"];
const loaded = new Map();
const find = (name) => (name.startsWith("./") ? (loaded.get(name) ?? load(name)).exports : require(name));
function load(name) {
  const module = { exports: {} };
  loaded.set(name, module);
  const text = Buffer.from(getRawAsset(name)).toString();
  const run = compileFunction(text, parameters, { filename: name });
  run(module.exports, find, module, url, folder);
  module.exports = { ...module.exports };
  return module;
}
load("./launch.js");
`;

/** Writes the modules as CommonJS. @returns The file of each, by the name that others import. */
async function writeModules(folder: string): Promise<Record<string, string>> {
  const bundled = await build({
    ...commonOptions,
    platform: "node",
    format: "esm",
    splitting: true,
    write: false,
    entryPoints: ["src/cli/launch.ts"],
    outdir: folder,
    plugins: [await withStandIns()],
    define: { "import.meta.url": "importMetaUrl", "import.meta.dirname": "importMetaDirname" },
    minify: true,
    keepNames: true,
    legalComments: "eof",
  });
  console.log(`turns its ${bundled.outputFiles.length} modules into CommonJS`);
  const modules = bundled.outputFiles.map(async ({ path, text }) => {
    const supported = { "dynamic-import": false };
    const options = { format: "cjs", target, platform: "node", supported } as const;
    const { code } = await transform(text, { ...options, minifyWhitespace: true });
    await writeFile(path, code);
    return [`./${basename(path)}`, basename(path)];
  });
  return Object.fromEntries(await Promise.all(modules));
}

async function writeExecutables(folder: string, wanted: readonly Architecture[]): Promise<void> {
  console.log("bundles the program");
  const assets = await writeModules(folder);
  await writeFile(join(folder, "main.cjs"), loader);
  for (const architecture of wanted) {
    const settings = {
      // The executable holds the path of `main`, so a random folder would make every build another.
      main: "main.cjs",
      output: "rampart",
      executable: await nodeFor(architecture, folder),
      disableExperimentalSEAWarning: true,
      execArgv: startFlags,
      assets,
    };
    await writeFile(join(folder, "sea.json"), JSON.stringify(settings));
    console.log("puts them into a copy of Node, which takes some seconds");
    execFileSync(process.execPath, ["--build-sea", "sea.json"], { cwd: folder, stdio: "ignore" });
    const executable = join(root, "out", `rampart-linux-${architecture}`);
    await mkdir(dirname(executable), { recursive: true });
    await copyFile(join(folder, "rampart"), `${executable}.new`);
    await rename(`${executable}.new`, executable);
    console.log(`wrote ${executable}`);
  }
}

/** The Node for a processor: this one, or that of the same version from npm, with the octets that the lock names. */
async function nodeFor(architecture: Architecture, folder: string): Promise<string> {
  if (architecture === process.arch) return process.execPath;
  const name = `node-linux-${architecture}`;
  const lock = JSON.parse(await readFile(join(root, "package-lock.json"), "utf8"));
  const { version, integrity } = lock.packages[`node_modules/${name}`];
  if (`v${version}` !== process.version) {
    throw new Error(`this is Node ${process.version}: type npm run executable`);
  }
  // The lock's digest decides, so a copy in the cache is as good as a new one.
  const quiet = ["--silent", "--prefer-offline"];
  const words = ["pack", `${name}@${version}`, ...quiet, "--pack-destination", folder];
  const file = join(folder, execFileSync("npm", words, { encoding: "utf8" }).trim());
  const digest = createHash("sha512")
    .update(await readFile(file))
    .digest("base64");
  if (integrity !== `sha512-${digest}`) throw new Error(`npm has another ${name} than the lock`);
  execFileSync("tar", ["-xzf", file, "-C", folder, "package/bin/node"]);
  return join(folder, "package/bin/node");
}

const asked = process.argv.slice(2);
const wanted = architectures.filter((each) =>
  asked.length > 0 ? asked.includes(each) : each === process.arch,
);
if (process.platform !== "linux" || wanted.length !== Math.max(asked.length, 1)) {
  throw new Error(`an executable is for Linux on ${architectures.join(" or ")}`);
}
const folder = await mkdtemp(join(tmpdir(), "rampart-executable-"));
try {
  await writeExecutables(folder, wanted);
} finally {
  await rm(folder, { recursive: true });
}
