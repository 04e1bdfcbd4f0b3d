import { mkdir } from "node:fs/promises";
import { isIPv4 } from "node:net";
import { basename, join } from "node:path";
import { AtomicFile } from "../../program/files/atomic-file.ts";
import { SmallFile } from "../../program/files/small-file.ts";
import { type Environment, parseVariables } from "../configuration/environment.ts";
import { addressesOf } from "../configuration/xds-settings.ts";
import { createMachineBootstrap } from "./xds-bootstrap.ts";

const maximumOverrideOctets = 1024 * 1024;

/** The options that give Envoy a configuration. */
const configurationOptions = /^(?:-c|--config-path|--config-yaml)(?:=|$)/;

/**
 * The options that the agent adds to Envoy's command line: the drain strategy and `ISTIO_BOOTSTRAP_OVERRIDE`. With an
 * XDS proxy it adds pilot-agent's options and, unless `given` names a configuration, writes a bootstrap and names that.
 *
 * @throws ConfigurationError, or OperatorError for a file that cannot be read.
 */
export async function envoyOptions(
  environment: Environment,
  given: readonly string[],
): Promise<readonly EnvoyOption[]> {
  const variables = parseVariables(environment);
  const { PROXY_CONFIG, DISCOVERY_ADDRESS, ISTIO_BOOTSTRAP_OVERRIDE: override } = variables;
  const always = [immediateDrain, ...(override ? [await overrideOption(override)] : [])];
  if ((DISCOVERY_ADDRESS ?? PROXY_CONFIG.discoveryAddress) === undefined) return always;
  const hasConfiguration = given.some((each) => configurationOptions.test(each));
  // As in pilot-agent, 0 means one thread for each processor of the machine.
  const concurrency = PROXY_CONFIG.concurrency ?? variables.ISTIO_CPU_LIMIT;
  return [
    ...(hasConfiguration ? [] : [await writtenBootstrap(environment, PROXY_CONFIG.configPath)]),
    ...always,
    ["--drain-time-s", String(Math.round(PROXY_CONFIG.drainMilliseconds / 1000))],
    ["--local-address-ip-version", addressesOf(variables).some(isIPv4) ? "v4" : "v6"],
    ["--file-flush-interval-msec", "1000"],
    ["--disable-hot-restart"],
    ["--allow-unknown-static-fields"],
    ["-l", "warning"],
    ["--component-log-level", "misc:error"],
    ...(concurrency ? [["--concurrency", String(concurrency)] as const] : []),
  ];
}

async function overrideOption(path: string): Promise<EnvoyOption> {
  return ["--config-yaml", await SmallFile.read(path, maximumOverrideOctets)];
}

async function writtenBootstrap(environment: Environment, folder: string): Promise<EnvoyOption> {
  const path = join(folder, "envoy-rev.json");
  const bootstrap = await createMachineBootstrap(environment, "sidecar");
  await mkdir(folder, { recursive: true, mode: 0o750 });
  await AtomicFile.replace(path, `${JSON.stringify(bootstrap, undefined, 2)}\n`, { mode: 0o600 });
  return ["-c", path];
}

/** The program of a proxy with its arguments. */
export interface ProxyCommand {
  readonly command: string;
  readonly arguments: readonly string[];
}

type EnvoyOption = readonly [name: string] | readonly [name: string, value: string];

/**
 * The drain strategy of pilot-agent. Envoy's default strategy, gradual, tells connections to close over ten
 * minutes, so a drain of seconds cuts off almost all of them.
 */
export const immediateDrain: EnvoyOption = ["--drain-strategy", "immediate"];

/** Long names of options that have a short one. */
const synonyms: Readonly<Record<string, string>> = {
  "--config-path": "-c",
  "--log-level": "-l",
};

/** Adds options to a command if it is Envoy ({@link isEnvoy}). Options that the operator gave stay as they are. */
export function withOptions(
  { command, arguments: given }: ProxyCommand,
  options: readonly EnvoyOption[],
): ProxyCommand {
  if (!isEnvoy(command)) return { command, arguments: given };
  const names = new Set(given.map((each) => each.split("=", 1)[0] ?? ""));
  const known = new Set([...names].map((name) => synonyms[name] ?? name));
  const missing = options.filter(([name]) => !known.has(name));
  return { command, arguments: [...given, ...missing.flat()] };
}

/** Whether the command is Envoy itself, by its name. A script that starts Envoy may not pass arguments on. */
export function isEnvoy(command: string): boolean {
  return /^envoy(?:-static|-contrib|-v?\d[\d.]*)?$/.test(basename(command));
}
