import { Command } from "commander";
import { createEventLog } from "../../../ca/issuance/audit-event.ts";
import { writeToConsole } from "../../../foundation/event-log.ts";
import { distribute } from "../../../node/distribute/distribute.ts";
import { parseDistributeConfiguration } from "../../../node/distribute/distribute-configuration.ts";
import { readConfigurationFile } from "../../../node/files/configuration-file.ts";
import { orOperatorError } from "../../terminal/operator-error.ts";
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
      const start = () =>
        orOperatorError(async () => {
          const values = await readConfigurationFile(config, {});
          const configuration = parseDistributeConfiguration(values, process.env);
          const { address, close } = await distribute(configuration, { log, clock });
          return { monitoringAddress: address, close };
        });
      await runUntilSignal(start, log);
    });
}
