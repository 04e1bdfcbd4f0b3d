import { mkdir, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { script } from "../src/gen/console/script.ts";
import { scriptPath } from "../src/gen/console/script-name.ts";

/** Writes the folder that `[assets]` of a wrangler.toml names: the script of the console, under its path. */
export async function writeConsoleAssets(folder: string): Promise<void> {
  const file = join(folder, scriptPath);
  await rm(folder, { recursive: true, force: true });
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, script);
}

if (import.meta.main) {
  await writeConsoleAssets(fileURLToPath(new URL("../.wrangler/console", import.meta.url)));
}
