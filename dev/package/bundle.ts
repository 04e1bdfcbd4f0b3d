import { execFileSync } from "node:child_process";
import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type BuildOptions, build, type Metafile, type Plugin } from "esbuild";
import { asNotices, licenceIn } from "./evidence.ts";
import { namedPages } from "./named-pages.ts";

const root = join(import.meta.dirname, "../..");

/** The least Node of package.json. */
export const target = "node24";

/** What every bundle of ours has in common. */
export const commonOptions: BuildOptions = {
  absWorkingDir: root,
  bundle: true,
  logLevel: "warning",
  target,
};

/** Modules that read the repository's files, and the text that bundles have in their place. */
async function standIns(): Promise<ReadonlyMap<string, string>> {
  const wranglerToml = await readFile(join(root, "wrangler.toml"), "utf8");
  const buildModule = join(root, "src/foundation/build.ts");
  const build = await readFile(buildModule, "utf8");
  const unit = (program: string): Promise<string> =>
    readFile(join(root, `deploy/rampart-${program}.service`), "utf8");
  const units = {
    serve: await unit("serve"),
    gateway: await unit("gateway"),
    agent: await unit("agent"),
  };
  return new Map([
    [
      join(root, "src/cli/verbs/run/systemd-units.ts"),
      `export const systemdUnits = ${JSON.stringify(units)};`,
    ],
    [
      join(root, "src/cli/verbs/docs/pages.ts"),
      `export const pages = new Map(${JSON.stringify([...(await namedPages())])});`,
    ],
    [buildModule, build.replace('"checkout"', JSON.stringify(builtCommit()))],
    [
      join(root, "src/cli/verbs/init/wrangler-toml.ts"),
      `export const wranglerToml = ${JSON.stringify(wranglerToml)};`,
    ],
    [
      // It is in a chunk of `rampart-dev`, below `program`.
      join(root, "dev/worker/main-module.ts"),
      `import { fileURLToPath } from "node:url";
       export const mainModule = fileURLToPath(new URL("../worker-with-log.js", import.meta.url));`,
    ],
  ]);
}

/** The commit of the tree, in twelve digits, with `+` for changes. `RAMPART_COMMIT` tells it to a build without git. */
function builtCommit(): string {
  const { RAMPART_COMMIT: given } = process.env;
  if (given) return given;
  const git = (...words: readonly string[]): string =>
    execFileSync("git", words, {
      cwd: root,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    }).trim();
  try {
    return (
      git("rev-parse", "--short=12", "HEAD") + (git("status", "--porcelain") === "" ? "" : "+")
    );
  } catch {
    return "unknown";
  }
}

/** Puts texts of the repository into the bundles. */
export async function withStandIns(): Promise<Plugin> {
  const texts = await standIns();
  return {
    name: "stand-ins",
    setup: ({ onLoad }) =>
      onLoad(
        {
          filter: /(?:wrangler-toml|systemd-units|docs\/pages|main-module|foundation\/build)\.ts$/,
        },
        ({ path }) => {
          const contents = texts.get(path);
          return contents === undefined ? undefined : { contents, loader: "js" };
        },
      ),
  };
}

/** Leaves out the docblocks of members, which esbuild would keep where it does not minify. */
const withoutDocblocks: Plugin = {
  name: "without-docblocks",
  setup: ({ onLoad }) =>
    onLoad({ filter: /[/]src[/].*\.ts$/ }, async ({ path }) => ({
      contents: (await readFile(path, "utf8")).replace(/^ +\/\*\*.*?\*\/\n/gms, ""),
      loader: "ts",
    })),
};

/**
 * Bundles the programs, the Workers and the client of the package. `rampart` has its libraries in it, because an agent that loads
 * them file by file holds 9 MiB more. The others find theirs outside, where npm installs them.
 *
 * @returns The specifiers of what stays outside.
 */
export async function bundlePackage(folder: string): Promise<ReadonlySet<string>> {
  await rm(folder, { recursive: true, force: true });
  const common: BuildOptions = {
    ...commonOptions,
    format: "esm",
    outdir: folder,
    plugins: [await withStandIns(), withoutDocblocks],
    splitting: true,
    metafile: true,
  };
  const program = { ...common, platform: "node", minify: true, keepNames: true } as const;
  const programs = await build({
    ...program,
    entryPoints: { rampart: "src/cli/launch.ts", lambda: "src/node/lambda/main.ts" },
    chunkNames: "program/[name]-[hash]",
    banner: { js: requireInModule },
  });
  const dev = await build({
    ...program,
    packages: "external",
    entryPoints: { "rampart-dev": "dev/launch.ts" },
    chunkNames: "program/[name]-[hash]",
  });
  const workers = await build({
    ...common,
    platform: "neutral",
    packages: "external",
    entryPoints: {
      worker: "src/worker/main.ts",
      "worker-with-console": "src/worker/main-with-console.ts",
      "worker-with-log": "src/worker/main-with-log.ts",
      "worker-with-keys": "src/worker/main-with-keys.ts",
    },
    external: ["cloudflare:workers"],
    chunkNames: "worker/[name]-[hash]",
  });
  const client = await build({
    ...common,
    platform: "neutral",
    packages: "external",
    entryPoints: { client: "src/client/client.ts" },
  });
  await writeFile(join(folder, "THIRD_PARTY_NOTICES.txt"), await bundledNotices(programs.metafile));
  return new Set([programs, dev, workers, client].flatMap(({ metafile }) => externals(metafile)));
}

/** Libraries that are CommonJS ask for modules of Node in this way. */
export const requireInModule = `import { createRequire as createRequireHere } from "node:module";
const require = createRequireHere(import.meta.url);`;

/** The licences of the libraries in the bundles. */
async function bundledNotices(metafile: Metafile | undefined): Promise<string> {
  const folders = Object.keys(metafile?.inputs ?? {}).flatMap(
    (path) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path) ?? [],
  );
  const parts = [...new Set(folders)].toSorted().map(async (path) => {
    const { name, version } = JSON.parse(await readFile(join(root, path, "package.json"), "utf8"));
    return `${name} ${version}\n\n${await licenceIn(join(root, path))}`;
  });
  return asNotices(await Promise.all(parts));
}

function externals(metafile: Metafile | undefined): readonly string[] {
  const imports = Object.values(metafile?.outputs ?? {}).flatMap((output) => output.imports);
  return imports.filter(({ external }) => external).map(({ path }) => path);
}
