import { Command } from "commander";
import { createEventLog } from "../../../ca/issuance/audit-event.ts";
import { writeToConsole } from "../../../foundation/event-log.ts";
import type { Values } from "../../../node/reload/restart-keys.ts";
import { runSigner } from "../../../node/signer/signer.ts";
import {
  parseSignerConfiguration,
  signerRestartKeys,
} from "../../../node/signer/signer-configuration.ts";
import { startReloading } from "./reloading.ts";
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
      const program = {
        path: config,
        environment: {},
        parse: (values: Values) => parseSignerConfiguration(values, process.env),
        restartKeys: signerRestartKeys,
        start: runSigner,
      };
      await runUntilSignal(async () => {
        const { address, close } = await startReloading(program, { log, clock });
        return { monitoringAddress: address, close };
      }, log);
    });
}
