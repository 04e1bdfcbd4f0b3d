import { Command } from "commander";
import { createEventLog } from "../../../ca/issuance/audit-event.ts";
import { writeToConsole } from "../../../foundation/event-log.ts";
import { readConfigurationFile } from "../../../node/files/configuration-file.ts";
import { runSigner } from "../../../node/signer/signer.ts";
import { parseSignerConfiguration } from "../../../node/signer/signer-configuration.ts";
import { orOperatorError } from "../../terminal/operator-error.ts";
import { runUntilSignal } from "./serve.ts";

interface SignerOptions {
  readonly config: string;
}

/** `rampart signer`: the certificates that a cluster requests for pods and services. */
export function signerCommand(clock: () => Date): Command {
  return new Command("signer")
    .description("Answer a cluster's requests for certificates of pods and services.")
    .option("-c, --config <file>", "the configuration", "signer.toml")
    .action(async ({ config }: SignerOptions) => {
      const log = createEventLog(clock, writeToConsole);
      const start = () =>
        orOperatorError(async () => {
          const values = await readConfigurationFile(config, {});
          const configuration = parseSignerConfiguration(values, process.env);
          const { address, close } = await runSigner(configuration, { log, clock });
          return { monitoringAddress: address, close };
        });
      await runUntilSignal(start, log);
    });
}
