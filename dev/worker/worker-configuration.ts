import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parse } from "smol-toml";
import { mainModule } from "./main-module.ts";

/** The issuance log and its bindings, which a deployment turns on by itself. */
export const withLog = {
  main: mainModule,
  durable_objects: { bindings: [{ name: "LOG_SHARD", class_name: "IssuanceLogShard" }] },
  migrations: [{ tag: "issuance-log", new_sqlite_classes: ["IssuanceLogShard"] }],
  r2_buckets: [{ binding: "LOG_BUCKET", bucket_name: "rampart-log" }],
};

/**
 * Writes the configuration of the development Worker: that of `wrangler.toml`, with the issuance log.
 *
 * @returns Its path.
 */
export async function writeWorkerConfiguration(root: string): Promise<string> {
  const deployed = parse(await readFile(join(root, "wrangler.toml"), "utf8"));
  const { $schema: _, ...settings } = deployed;
  const path = join(root, ".wrangler/development.json");
  await mkdir(join(root, ".wrangler"), { recursive: true });
  await writeFile(path, JSON.stringify({ ...settings, ...withLog }, undefined, 2));
  return path;
}
