import { basename } from "node:path";

/** The command line of a proxy. */
export interface ProxyCommand {
  readonly command: string;
  readonly arguments: readonly string[];
}

const strategyOption = "--drain-strategy";

/**
 * The command with the drain strategy of pilot-agent. Envoy's default strategy, gradual, tells connections to close over ten
 * minutes, so a drain of seconds cuts off almost all of them. A strategy of the operator stays.
 */
export function withDrainStrategy({ command, arguments: given }: ProxyCommand): ProxyCommand {
  const isGiven = given.some((each) => each.split("=", 1)[0] === strategyOption);
  if (isGiven || !isEnvoy(command)) return { command, arguments: given };
  return { command, arguments: [...given, strategyOption, "immediate"] };
}

/** Whether the command is Envoy itself. A script that starts Envoy need not pass its arguments on. */
export function isEnvoy(command: string): boolean {
  return /^envoy(?:-static|-contrib|-v?\d[\d.]*)?$/.test(basename(command));
}
