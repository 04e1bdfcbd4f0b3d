import type { AddressInfo } from "node:net";
import { Command } from "commander";
import { createEventLog } from "../../../ca/issuance/audit-event.ts";
import { writeToConsole } from "../../../foundation/events.ts";
import type { ServerContext } from "../../../node/server.ts";
import type { Values } from "../../../program/running-configuration.ts";
import type { Terminal } from "../../terminal/terminal.ts";
import { type Reconfigurable, startReloading } from "./reloading.ts";
import { type Running, runUntilSignal } from "./serve.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/** A program beside the CA, which follows its file. It takes no secret from the environment. */
export interface FollowingProgram<C, S> {
  readonly description: string;
  /** Of the environment, a pod needs where its API server is. */
  readonly parse: (values: Values, environment: Environment) => C;
  readonly restartKeys: readonly string[];
  readonly start: (first: C, context: ServerContext) => Promise<S>;
}

/** The verb that runs a program until a signal ends it. Its file has the verb's name by default. */
export function followingCommand<C, S extends Running & Reconfigurable<C>>(
  verb: string,
  terminal: Terminal,
  { description, parse, restartKeys, start }: FollowingProgram<C, S>,
): Command {
  return new Command(verb)
    .description(description)
    .option("-c, --config <file>", "the configuration", `${verb}.toml`)
    .action(async ({ config }: { readonly config: string }) => {
      const { clock, environment } = terminal;
      const log = createEventLog(clock, writeToConsole);
      const program = {
        path: config,
        environment: {},
        parse: (values: Values) => parse(values, environment),
        restartKeys,
        start,
      };
      await runUntilSignal(() => startReloading(program, { log, clock }), log);
    });
}

/** A program that no caller reaches. */
interface Unreached<C> extends Reconfigurable<C> {
  /** Of its monitoring port. */
  readonly address: AddressInfo;
}

/** Starts a program whose only port is that of monitoring. */
export const withoutCallers =
  <C>(start: (first: C, context: ServerContext) => Promise<Unreached<C>>) =>
  async (first: C, context: ServerContext): Promise<Running & Reconfigurable<C>> => {
    const { address, reconfigure, close } = await start(first, context);
    return { monitoringAddress: address, reconfigure, close };
  };
