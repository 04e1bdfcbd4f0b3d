import { basename } from "node:path";

/** The command line of a proxy. */
export interface ProxyCommand {
  readonly command: string;
  readonly arguments: readonly string[];
}

/** An option, and its value if it has one. */
export type EnvoyOption = readonly [name: string] | readonly [name: string, value: string];

/**
 * The drain strategy of pilot-agent. Envoy's default strategy, gradual, tells connections to close over ten
 * minutes, so a drain of seconds cuts off almost all of them.
 */
export const immediateDrain: EnvoyOption = ["--drain-strategy", "immediate"];

/** The names of options that have another. */
const synonyms: Readonly<Record<string, string>> = {
  "--config-path": "-c",
  "--log-level": "-l",
};

/** The command with options that Envoy does not have yet. The operator's own stay as they are. */
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

/** Whether the command is Envoy itself. A script that starts Envoy need not pass its arguments on. */
export function isEnvoy(command: string): boolean {
  return /^envoy(?:-static|-contrib|-v?\d[\d.]*)?$/.test(basename(command));
}
