import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname } from "node:path";
import { OperatorError } from "../../foundation/errors.ts";

const require: NodeJS.Require = createRequire(import.meta.url);

/**
 * The path of wrangler: that of the Worker's project, or the one beside this program.
 *
 * @param config The project's `wrangler.toml`.
 */
export function wranglerPath(config: string): string {
  const folder = dirname(config);
  try {
    return require.resolve("wrangler", { paths: [folder, import.meta.dirname] });
  } catch (cause) {
    throw new OperatorError(
      `a Worker's store takes wrangler, which is not installed in ${folder}: run npm install there`,
      { cause },
    );
  }
}

/** Wrangler takes seconds to load, and `--help` does not need it. */
export function loadWrangler(config: string): typeof import("wrangler") {
  return require(wranglerPath(config));
}

/** The versions of the tools of a Worker's project. */
export interface WorkerTools {
  readonly wrangler: string;
  readonly workerd: string;
}

/** @throws OperatorError where wrangler is not installed. */
export function installedTools(config: string): WorkerTools {
  const folder = dirname(wranglerPath(config));
  return {
    wrangler: versionOf("wrangler", folder),
    workerd: versionOf("workerd", folder),
  };
}

function versionOf(name: string, folder: string): string {
  const path = require.resolve(`${name}/package.json`, { paths: [folder] });
  const manifest: { readonly version: string } = JSON.parse(readFileSync(path, "utf8"));
  return manifest.version;
}
