import { execFile } from "node:child_process";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join, normalize, relative, sep } from "node:path";
import { promisify } from "node:util";
import { writeConsoleAssets } from "../console-assets.ts";
import { bundlePackage } from "./bundle.ts";

const root = join(import.meta.dirname, "../..");
const source = join(root, "src");
const run = promisify(execFile);

/**
 * Writes what npm packs: programs, Workers, the client, the script of the console, and types, which `tsc` has made anew.
 *
 * @returns The specifiers that stay outside of the bundles.
 */
export async function writePackage(folder: string): Promise<ReadonlySet<string>> {
  const outside = await bundlePackage(folder);
  await writeConsoleAssets(join(folder, "console"));
  await run(join(root, "node_modules/.bin/tsc"), ["-b", "src/worker", "src/client"], { cwd: root });
  await copyDeclarations(join(folder, "types"));
  return outside;
}

const entries = [
  "client/client.ts",
  "worker/main.ts",
  "worker/main-with-console.ts",
  "worker/main-with-log.ts",
  "worker/main-with-keys.ts",
];

/** Copies the declarations of what is imported, and those that they import. */
async function copyDeclarations(folder: string): Promise<void> {
  const waiting = [...entries];
  const seen = new Set<string>();
  for (let file = waiting.pop(); file !== undefined; file = waiting.pop()) {
    if (seen.has(file)) continue;
    seen.add(file);
    const text = await readFile(emitted(file), "utf8");
    for (const [, path = ""] of text.matchAll(importedPath)) {
      waiting.push(normalize(join(dirname(file), `${path}.ts`)));
    }
    const copy = join(folder, file.replace(/\.ts$/, ".d.ts"));
    await mkdir(dirname(copy), { recursive: true });
    await writeFile(copy, text.replaceAll(importedPath, 'from "$1.js"'));
  }
}

const importedPath = /from "(\.[^"]+)\.ts"/g;

/** Each layer has its declarations in a folder of its own. */
function emitted(file: string): string {
  const [layer = "", ...rest] = relative(source, join(source, file)).split(sep);
  return join(source, layer, ".tsc", ...rest).replace(/\.ts$/, ".d.ts");
}
