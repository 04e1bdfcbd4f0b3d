import { execFileSync } from "node:child_process";
import { chmod, copyFile, mkdir, mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build, transform } from "esbuild";
import { commonOptions, withStandIns } from "./bundle.ts";
import { startFlags } from "./node-flags.ts";

const root = join(import.meta.dirname, "../..");
const executable = join(root, "out", `rampart-${process.platform}-${process.arch}`);

/** By it, Node recognises a copy of itself that has a program in it. */
const fuse = "NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2";

/**
 * The first module. Node runs the program in an executable as one CommonJS module, and V8 would keep its two million
 * octets in every process: an agent needs a third of them, and no code of a cache. So each module is an asset.
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
  const modules = bundled.outputFiles.map(async ({ path, text }) => {
    const supported = { "dynamic-import": false };
    const options = { format: "cjs", target: "node24", platform: "node", supported } as const;
    const { code } = await transform(text, { ...options, minifyWhitespace: true });
    await writeFile(path, code);
    return [`./${basename(path)}`, basename(path)];
  });
  return Object.fromEntries(await Promise.all(modules));
}

async function writeExecutable(folder: string): Promise<void> {
  await writeFile(join(folder, "main.cjs"), loader);
  const blob = join(folder, "program.blob");
  const settings = {
    // The blob holds these paths, so a random folder would make every build another.
    main: "main.cjs",
    output: "program.blob",
    disableExperimentalSEAWarning: true,
    execArgv: startFlags,
    assets: await writeModules(folder),
  };
  await writeFile(join(folder, "sea.json"), JSON.stringify(settings));
  const preparing = [...startFlags, "--experimental-sea-config", "sea.json"];
  execFileSync(process.execPath, preparing, { cwd: folder, stdio: "ignore" });
  const copy = join(folder, "rampart");
  await copyFile(process.execPath, copy);
  await chmod(copy, 0o755);
  const postject = fileURLToPath(import.meta.resolve("postject/dist/cli.js"));
  const values = [postject, copy, "NODE_SEA_BLOB", blob, "--sentinel-fuse", fuse];
  // It warns of the section names of Node's own notes, at length.
  execFileSync(process.execPath, values, { stdio: "ignore" });
  await mkdir(dirname(executable), { recursive: true });
  await copyFile(copy, `${executable}.new`);
  await rename(`${executable}.new`, executable);
}

const folder = await mkdtemp(join(tmpdir(), "rampart-executable-"));
try {
  await writeExecutable(folder);
  console.log(`wrote ${executable}`);
} finally {
  await rm(folder, { recursive: true });
}
