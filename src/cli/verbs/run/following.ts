import { existsSync } from "node:fs";
import { Command } from "commander";
import { EventLog } from "../../../ca/issuance/event-log.ts";
import { OperatorError } from "../../../foundation/errors.ts";
import { ConfigurationFile } from "../../../node/files/configuration-file.ts";
import type { FollowingProgram, ServerContext } from "../../../node/server.ts";
import { EnvironmentProxies } from "../../../program/http/proxies.ts";
import { LogOutput } from "../../../program/log-output.ts";
import { Program } from "../../../program/program.ts";
import { fileState, type Values } from "../../../program/running-configuration.ts";
import { Runtime } from "../../../program/runtime.ts";
import { orOperatorError } from "../../terminal/failures.ts";
import { Signals } from "../../terminal/signals.ts";
import type { Terminal } from "../../terminal/terminal.ts";
import { telemetryOf } from "./telemetry.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Runs a program that follows its configuration until a signal ends it. A second signal ends the process at once.
 * @throws OperatorError for a missing or invalid configuration.
 */
export async function runFollowing<C>({
  path,
  environment,
  ...program
}: {
  /** The file of the configuration, which it follows. */
  readonly path: string;
  /** The environment at the start. The secrets of the configuration come from it. */
  readonly environment: Environment;
  readonly parse: (values: Values) => C;
  readonly restartKeys: readonly string[];
  readonly start: FollowingProgram<C>["start"];
  readonly context: ServerContext;
}): Promise<void> {
  using watch = Signals.watch();
  if (!existsSync(path)) {
    throw new OperatorError(`${path} does not exist: name the configuration with --config`);
  }
  const { start, context, parse, restartKeys } = program;
  Runtime.log(context.log);
  EnvironmentProxies.log(context.log);
  const variables = { ...environment };
  let reads = 0;
  const source = {
    parse,
    restartKeys,
    read: () => ConfigurationFile.read(path, variables, { mayBePipe: reads++ === 0 }),
    state: () => fileState(path),
  };
  await orOperatorError(() => Program.run({ source, start, context }, watch.signal));
}

/** The option that prints a unit for systemd. */
export const unitOption = ["--unit", "print the unit for systemd, and do nothing else"] as const;

/** Prints the program's unit for systemd. */
export async function printUnit(program: "serve" | "gateway", terminal: Terminal): Promise<void> {
  const { systemdUnits } = await import("./systemd-units.ts");
  terminal.print(systemdUnits[program].trimEnd());
}

/** Makes the verb of a program beside the CA, which is loaded once it runs. Its file is `<verb>.toml` by default. */
function followingCommand<C>(
  verb: string,
  terminal: Terminal,
  description: string,
  load: () => Promise<FollowingProgram<C>>,
): Command {
  const { clock, environment } = terminal;
  const command = new Command(verb).description(description);
  command.option("-c, --config <file>", "the configuration", `${verb}.toml`);
  if (verb === "gateway") command.option(...unitOption);
  return command.action(
    async ({ config: path, unit }: { readonly config: string; readonly unit?: boolean }) => {
      if (unit) return printUnit("gateway", terminal);
      const { keys, parse, ...program } = await load();
      const logOutput = LogOutput.open(process, clock);
      const telemetry = await telemetryOf(verb, terminal);
      const context = { log: EventLog.create(clock, logOutput.write), logOutput, clock, telemetry };
      ConfigurationFile.warnOfUnread(keys, environment, context.log);
      const parseHere = (values: Values): C => parse(values, environment);
      return runFollowing({ ...program, path, environment: {}, parse: parseHere, context });
    },
  );
}

/** Makes `rampart gateway`, which loads its program only when it runs. */
export const gatewayCommand = (terminal: Terminal): Command =>
  followingCommand(
    "gateway",
    terminal,
    "Serve native gRPC in front of a CA that is reached over HTTPS.",
    async () => (await import("../../../node/gateway/gateway.ts")).gateway,
  );

/** Makes `rampart distribute`, which loads its program only when it runs. */
export const distributeCommand = (terminal: Terminal): Command =>
  followingCommand(
    "distribute",
    terminal,
    "Keep the trust bundle of a CA in every namespace of a cluster.",
    async () => (await import("../../../node/distribute/distribute.ts")).distribution,
  );

/** Makes `rampart signer`, which loads its program only when it runs. */
export const signerCommand = (terminal: Terminal): Command =>
  followingCommand(
    "signer",
    terminal,
    "Answer a cluster's requests for certificates of pods and services.",
    async () => (await import("../../../node/signer/signer.ts")).signer,
  );
