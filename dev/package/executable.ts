import { execFileSync } from "node:child_process";
import { chmod, copyFile, mkdir, mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { commonOptions, withStandIns } from "./bundle.ts";
import { startFlags } from "./node-flags.ts";

const root = join(import.meta.dirname, "../..");
const executable = join(root, "out", `rampart-${process.platform}-${process.arch}`);

/** By it, Node recognises a copy of itself that has a program in it. */
const fuse = "NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2";

/** Node runs the program in an executable as CommonJS, which has no `import.meta`. */
const importMeta = `const importMetaUrl = require("node:url").pathToFileURL(process.execPath).href;
const importMetaDirname = require("node:path").dirname(process.execPath);`;

async function writeExecutable(folder: string): Promise<void> {
  const main = join(folder, "main.cjs");
  await build({
    ...commonOptions,
    platform: "node",
    format: "cjs",
    entryPoints: ["src/cli/launch.ts"],
    outfile: main,
    plugins: [await withStandIns()],
    banner: { js: importMeta },
    define: { "import.meta.url": "importMetaUrl", "import.meta.dirname": "importMetaDirname" },
    ...{ minify: true, keepNames: true, legalComments: "eof" },
  });
  const blob = join(folder, "program.blob");
  const settings = {
    // The blob holds this path, so a random folder would make every build another.
    main: "main.cjs",
    output: "program.blob",
    disableExperimentalSEAWarning: true,
    useCodeCache: true,
    execArgv: startFlags,
  };
  await writeFile(join(folder, "sea.json"), JSON.stringify(settings));
  // V8 takes the code cache of a process with the same flags alone, but for the bounds of the heap and the random
  // seed, which the cache follows.
  const preparing = [...startFlags, "--random-seed=1", "--experimental-sea-config", "sea.json"];
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
