import { createRequire } from "node:module";
import { dirname } from "node:path";
import { OperatorError } from "../../foundation/operator-error.ts";

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
