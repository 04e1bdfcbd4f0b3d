import { Command } from "commander";
import { createEventLog } from "../../../ca/issuance/audit-event.ts";
import { writeToConsole } from "../../../foundation/event-log.ts";
import { distribute } from "../../../node/distribute/distribute.ts";
import {
  distributeRestartKeys,
  parseDistributeConfiguration,
} from "../../../node/distribute/distribute-configuration.ts";
import type { Values } from "../../../node/reload/restart-keys.ts";
import { startReloading } from "./reloading.ts";
import { runUntilSignal } from "./serve.ts";

interface DistributeOptions {
  readonly config: string;
}

/** `rampart distribute`: the trust bundle in every namespace of a cluster. */
export function distributeCommand(clock: () => Date): Command {
  return new Command("distribute")
    .description("Keep the trust bundle of a CA in every namespace of a cluster.")
    .option("-c, --config <file>", "the configuration", "distribute.toml")
    .action(async ({ config }: DistributeOptions) => {
      const log = createEventLog(clock, writeToConsole);
      const program = {
        path: config,
        environment: {},
        parse: (values: Values) => parseDistributeConfiguration(values, process.env),
        restartKeys: distributeRestartKeys,
        start: distribute,
      };
      await runUntilSignal(async () => {
        const { address, close } = await startReloading(program, { log, clock });
        return { monitoringAddress: address, close };
      }, log);
    });
}
