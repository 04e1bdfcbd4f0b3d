import { existsSync, readFileSync } from "node:fs";
import { cp, mkdtemp, readFile, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import type { Unstable_Config } from "wrangler";
import { Configuration } from "../../config/configuration.ts";
import { credentialName } from "../../config/secrets.ts";
import { DnsName } from "../../foundation/addresses.ts";
import { ConfigurationError, OperatorError } from "../../foundation/errors.ts";
import { parseJson } from "../../foundation/json.ts";
import { ConfigurationFile } from "../../node/files/configuration-file.ts";
import { Runtime } from "../../program/runtime.ts";
import type { KvNamespace } from "../../worker/kv-store.ts";
import { orOperatorError } from "../terminal/failures.ts";

/** The Worker's bindings on this machine, as `wrangler dev` gives them. */
interface LocalWorker {
  /** `[vars]`, overridden by `.dev.vars`. */
  readonly variables: Readonly<Record<string, unknown>>;
  readonly namespace: KvNamespace;
  close(): Promise<void>;
}

// Otherwise, wrangler's own log lines would be in the verb's output.
process.env = { WRANGLER_LOG: "error", ...process.env };

const stateOf = (config: string): string => join(dirname(config), ".wrangler/state/v3");

/**
 * Opens the state that `npm start` and `wrangler dev` keep beside their configuration.
 * @throws OperatorError for an unreadable configuration, an unknown environment, and one that binds no KV namespace
 *   AUTHORITIES.
 */
export async function openLocalWorker(
  config: string,
  environment: string | undefined,
  state: string = stateOf(config),
): Promise<LocalWorker> {
  await readConfig(config, environment);
  const { getPlatformProxy } = loadWrangler(config);
  const { env, dispose } = await getPlatformProxy<Record<string, unknown>>({
    configPath: config,
    ...(environment && { environment }),
    persist: { path: state },
    remoteBindings: false,
  });
  const { AUTHORITIES, ...variables } = env;
  if (!AUTHORITIES) {
    await dispose();
    throw new OperatorError(`${config} binds no KV namespace AUTHORITIES`);
  }
  return { variables, namespace: AUTHORITIES as KvNamespace, close: dispose };
}

/** Opens a copy of the state of a local Worker, because wrangler writes even to read. Closing it removes the copy. */
export async function viewLocalWorker(
  config: string,
  environment: string | undefined,
): Promise<LocalWorker> {
  const copy = await mkdtemp(join(tmpdir(), "rampart-"));
  const remove = (): Promise<void> => rm(copy, { recursive: true, force: true });
  try {
    const state = stateOf(config);
    if (existsSync(state)) await cp(state, copy, { recursive: true });
    const worker = await openLocalWorker(config, environment, copy);
    return { ...worker, close: () => worker.close().finally(remove) };
  } catch (error) {
    await remove();
    throw error;
  }
}

/** Says in words what a configuration is read from: its file and the environment, or `.dev.vars` on this machine. */
export async function sourceOf(
  config: string,
  { env, remote }: { readonly env?: string; readonly remote?: boolean },
): Promise<string> {
  const name = basename(config);
  if (!config.endsWith("wrangler.toml")) return `${name} and the environment`;
  if (remote) return `${name}, and KEK of the environment`;
  const files = [...(env ? [`.dev.vars.${env}`] : []), ".dev.vars"];
  const local = files.find((each) => existsSync(join(dirname(config), each)));
  if (local === undefined) return name;
  const text = await readFile(join(dirname(config), local), "utf8").catch(() => "");
  const keys = [...text.matchAll(/^\s*([A-Z][A-Z0-9_]*)\s*=/gm)].map(([, key]) => key);
  return `${local} (${[...new Set(keys)].join(", ")}), else ${name}`;
}

/**
 * Parses the configuration in the variables of a Worker; others are ignored.
 * @param kekHint What the error says of a missing KEK.
 * @throws OperatorError if it is invalid.
 */
export function readConfiguration(
  variables: Readonly<Record<string, unknown>>,
  kekHint: string,
): Configuration {
  const values = Object.entries(variables).filter(
    ([name]) => Configuration.keys.includes(name) || credentialName.test(name),
  );
  try {
    return Configuration.parse(Object.fromEntries(values));
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error;
    const hint = "KEK" in variables ? "" : `\nKEK: ${kekHint}`;
    throw new OperatorError(`the configuration is invalid:\n${error.message}${hint}`);
  }
}

/** The parts of a `wrangler.toml` that a deployment takes. */
export type DeployedParts = Pick<Unstable_Config, "kv_namespaces" | "routes" | "workers_dev">;

/**
 * Reads a file as `wrangler deploy` does.
 * @throws OperatorError for an unreadable file, an unknown environment, a secret in `[vars]`, and without wrangler.
 */
export async function readConfig(
  config: string,
  env: string | undefined,
): Promise<Unstable_Config> {
  const { unstable_readConfig } = loadWrangler(config);
  const read = readable(config, () => {
    return unstable_readConfig({ config, ...(env && { env }) }, { hideWarnings: true });
  });
  // Wrangler would fall back to the top level, which is another CA.
  if (env && !read.definedEnvironments?.includes(env)) {
    throw new OperatorError(`${config} has no environment ${env}`);
  }
  const place = "belongs in `wrangler secret put`, and for `npm start` in .dev.vars";
  await orOperatorError(async () => ConfigurationFile.refuseSecrets(read.vars, place));
  return read;
}

/** The URL of the deployed Worker's `/readyz`; `undefined` if no route names its host. */
export function deployedReadyUrl(routes: Unstable_Config["routes"] = []): string | undefined {
  const patterns = routes.map((route) => (typeof route === "string" ? route : route.pattern));
  const host = patterns.map((pattern) => pattern.replace(/\/.*/, "")).find(DnsName.is);
  return host && `https://${host}/readyz`;
}

function readable<T>(config: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw new OperatorError(
      `${config} cannot be read: ${error instanceof Error ? error.message : ""}`,
    );
  }
}

const require: NodeJS.Require = createRequire(import.meta.url);

/**
 * Finds the module of wrangler that Node runs: of the Worker's project, or else beside this program.
 * @param config The project's `wrangler.toml`.
 * @throws OperatorError if none is installed, and under Deno or Bun.
 */
export function wranglerPath(config: string): string {
  const folder = dirname(config);
  if (Runtime.other)
    throw new OperatorError(
      `a Worker's store takes wrangler and Node, and this is ${Runtime.other}`,
    );
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
function loadWrangler(config: string): typeof import("wrangler") {
  return require(wranglerPath(config));
}

/** The versions of the tools of a Worker's project. */
export interface WorkerTools {
  readonly wrangler: string;
  readonly workerd: string;
}

/**
 * Finds the versions of wrangler and workerd that are installed for the configuration's folder.
 * @throws OperatorError if wrangler is not installed.
 */
export function installedTools(config: string): WorkerTools {
  const folder = dirname(wranglerPath(config));
  return {
    wrangler: versionOf("wrangler", folder),
    workerd: versionOf("workerd", folder),
  };
}

function versionOf(name: string, folder: string): string {
  const path = require.resolve(`${name}/package.json`, { paths: [folder] });
  const manifest = parseJson(readFileSync(path)) as { readonly version: string };
  return manifest.version;
}
