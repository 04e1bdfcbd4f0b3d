import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { type BuildOptions, build, type Metafile, type Plugin } from "esbuild";

const root = join(import.meta.dirname, "../..");

/** What every bundle of ours has in common. */
export const commonOptions: BuildOptions = {
  absWorkingDir: root,
  bundle: true,
  logLevel: "warning",
  target: "node24",
};

/** Modules that read the repository's files, and the text that bundles have in their place. */
async function standIns(): Promise<ReadonlyMap<string, string>> {
  const wranglerToml = await readFile(join(root, "wrangler.toml"), "utf8");
  return new Map([
    [
      join(root, "src/cli/verbs/init/wrangler-toml.ts"),
      `export const wranglerToml = ${JSON.stringify(wranglerToml)};`,
    ],
    [
      join(root, "dev/worker/main-module.ts"),
      `import { fileURLToPath } from "node:url";
       export const mainModule = fileURLToPath(new URL("./worker-with-log.js", import.meta.url));`,
    ],
  ]);
}

/** Puts texts of the repository into the bundles. */
export async function withStandIns(): Promise<Plugin> {
  const texts = await standIns();
  return {
    name: "stand-ins",
    setup: ({ onLoad }) =>
      onLoad({ filter: /(?:wrangler-toml|main-module)\.ts$/ }, ({ path }) => {
        const contents = texts.get(path);
        return contents === undefined ? undefined : { contents, loader: "js" };
      }),
  };
}

/**
 * Bundles the programs and the Workers of the package. What it depends on stays outside, and npm installs it.
 *
 * @returns The specifiers of what stays outside.
 */
export async function bundlePackage(folder: string): Promise<ReadonlySet<string>> {
  await rm(folder, { recursive: true, force: true });
  const plugins = [await withStandIns()];
  const outside: BuildOptions = {
    ...commonOptions,
    format: "esm",
    outdir: folder,
    packages: "external",
    plugins,
    splitting: true,
    metafile: true,
  };
  const programs = await build({
    ...outside,
    platform: "node",
    entryPoints: { rampart: "src/cli/launch.ts", "rampart-dev": "dev/start.ts" },
    chunkNames: "program/[name]-[hash]",
  });
  const workers = await build({
    ...outside,
    platform: "neutral",
    entryPoints: {
      worker: "src/worker/main.ts",
      "worker-with-console": "src/worker/main-with-console.ts",
      "worker-with-log": "src/worker/main-with-log.ts",
    },
    external: ["cloudflare:workers"],
    chunkNames: "worker/[name]-[hash]",
  });
  return new Set([...externals(programs.metafile), ...externals(workers.metafile)]);
}

function externals(metafile: Metafile | undefined): readonly string[] {
  const imports = Object.values(metafile?.outputs ?? {}).flatMap((output) => output.imports);
  return imports.filter(({ external }) => external).map(({ path }) => path);
}
