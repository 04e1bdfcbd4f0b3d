import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { parse } from "smol-toml";
import type { TestHarness, Unstable_RawConfig } from "wrangler";
import { lastingFolder } from "../temporary-folder.ts";
import { programEnvironment } from "./environment.ts";

/** `wrangler.toml` of this repository. */
export const wranglerToml = parse(
  readFileSync(resolve(import.meta.dirname, "../../../wrangler.toml"), "utf8"),
) as Unstable_RawConfig;

/**
 * Creates the Worker of `wrangler.toml` in workerd, with these tables in place of the file's, and these variables
 * and secrets, in `vars`, over the file's.
 *
 * Its folder is empty: wrangler would take a `.dev.vars`, a `.env` and a `.wrangler` that lie beside the file.
 *
 * @param settings Its `main` is relative to the repository.
 */
export async function createEdgeWorker(settings: Unstable_RawConfig): Promise<TestHarness> {
  Object.assign(process.env, programEnvironment());
  const { createTestHarness } = await import("wrangler");
  const root = await lastingFolder();
  const { $schema: _, ...config } = { ...wranglerToml, ...settings };
  const vars = { ...wranglerToml.vars, ...settings.vars };
  const main = resolve(import.meta.dirname, "../../..", `${config.main}`);
  const harness = createTestHarness({ root, workers: [{ config: { ...config, main, vars } }] });
  const close = async (): Promise<void> => {
    await harness.close();
  };
  return { ...harness, close };
}
