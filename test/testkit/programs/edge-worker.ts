import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";
import { parse } from "smol-toml";
import type * as wrangler from "wrangler";
import type { TestHarness, TestHarnessOptions, Unstable_RawConfig } from "wrangler";
import { lastingFolder } from "../temporary-folder.ts";
import { programEnvironment } from "./environment.ts";

/** `wrangler.toml` of this repository. */
export const wranglerToml = parse(
  readFileSync(resolve(import.meta.dirname, "../../../wrangler.toml"), "utf8"),
) as Unstable_RawConfig;

interface EdgeWorker extends TestHarness {
  /** Deploys it with these variables. Its storage stays. */
  readonly deploy: (vars: Unstable_RawConfig["vars"]) => Promise<void>;
}

/**
 * Creates the Worker of `wrangler.toml` in workerd, with these tables in place of the file's, and these variables
 * and secrets, in `vars`, over the file's.
 *
 * Its folder is empty: wrangler would take a `.dev.vars`, a `.env` and a `.wrangler` that lie beside the file.
 *
 * @param settings Its `main` is relative to the repository.
 */
export async function createEdgeWorker(settings: Unstable_RawConfig): Promise<EdgeWorker> {
  Object.assign(process.env, programEnvironment());
  // An import would compile its megabytes twice, to see at first whether they are a module.
  const { createTestHarness }: typeof wrangler = createRequire(import.meta.url)("wrangler");
  const root = await lastingFolder();
  const { $schema: _, ...config } = { ...wranglerToml, ...settings };
  const variables = wranglerToml.vars;
  const main = resolve(import.meta.dirname, "../../..", `${config.main}`);
  const optionsWith = (vars: Unstable_RawConfig["vars"]): TestHarnessOptions => ({
    root,
    workers: [{ config: { ...config, main, vars: { ...variables, ...vars } } }],
  });
  const harness = createTestHarness(optionsWith(settings.vars));
  const close = async (): Promise<void> => {
    await harness.close();
  };
  return { ...harness, close, deploy: (vars) => harness.update(optionsWith(vars)) };
}
