import { join } from "node:path";
import { writeConsoleAssets } from "../console-assets.ts";
import { bundlePackage } from "./bundle.ts";
import { copyDeclarations } from "./declarations.ts";

/**
 * Writes what npm packs: programs, Workers, the script of the console, and types. `tsc -b src/worker` has
 * made the types before.
 *
 * @returns The specifiers that stay outside of the bundles.
 */
export async function writePackage(folder: string): Promise<ReadonlySet<string>> {
  const outside = await bundlePackage(folder);
  await writeConsoleAssets(join(folder, "console"));
  await copyDeclarations(join(folder, "types"));
  return outside;
}
