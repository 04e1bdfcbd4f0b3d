import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parse } from "smol-toml";
import { writeConsoleAssets } from "../console-assets.ts";
import { mainModule } from "./main-module.ts";

/** The issuance log and its bindings, which a deployment turns on by itself. */
export const withLog = {
  main: mainModule,
  durable_objects: { bindings: [{ name: "LOG_SHARD", class_name: "IssuanceLogShard" }] },
  migrations: [{ tag: "issuance-log", new_sqlite_classes: ["IssuanceLogShard"] }],
  r2_buckets: [{ binding: "LOG_BUCKET", bucket_name: "rampart-log" }],
};

/** The folder with the script of the console, below that of `wrangler.toml`. */
const consoleFolder = ".wrangler/console";

/**
 * Writes the configuration of the development Worker: that of `wrangler.toml`, with the issuance log and the live console.
 *
 * @returns Its path.
 */
export async function writeWorkerConfiguration(root: string): Promise<string> {
  const deployed = parse(await readFile(join(root, "wrangler.toml"), "utf8"));
  const { $schema: _, ...settings } = deployed;
  const path = join(root, ".wrangler/development.json");
  await mkdir(join(root, ".wrangler"), { recursive: true });
  await writeConsoleAssets(join(root, consoleFolder));
  const assets = {
    directory: join(root, consoleFolder),
    binding: "CONSOLE_ASSETS",
    run_worker_first: true,
  };
  await writeFile(path, JSON.stringify({ ...settings, ...withLog, assets }, undefined, 2));
  return path;
}

/**
 * Writes the variables of one start of the Worker into a file of this user alone: everybody on the machine reads command
 * lines, and a token is among the variables.
 *
 * @returns Its path.
 */
export async function writeWorkerVariables(
  root: string,
  variables: Readonly<Record<string, string>>,
): Promise<string> {
  const path = join(root, ".wrangler/development.vars");
  const lines = Object.entries(variables).map(([name, value]) => `${name}="${value}"\n`);
  await mkdir(join(root, ".wrangler"), { recursive: true });
  await rm(path, { force: true });
  await writeFile(path, lines.join(""), { mode: 0o600, flag: "wx" });
  return path;
}
