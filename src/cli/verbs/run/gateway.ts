import { Command } from "commander";
import { createEventLog } from "../../../ca/issuance/audit-event.ts";
import { writeToConsole } from "../../../foundation/event-log.ts";
import {
  gatewayRestartKeys,
  parseGatewayConfiguration,
} from "../../../node/gateway/gateway-configuration.ts";
import type { Values } from "../../../node/reload/restart-keys.ts";
import { startReloading } from "./reloading.ts";
import { runUntilSignal } from "./serve.ts";

interface GatewayOptions {
  readonly config: string;
}

/** `rampart gateway`: native gRPC for a CA that is reached over HTTPS. */
export function gatewayCommand(clock: () => Date): Command {
  return new Command("gateway")
    .description("Serve native gRPC in front of a CA that is reached over HTTPS.")
    .option("-c, --config <file>", "the configuration", "gateway.toml")
    .action(async ({ config }: GatewayOptions) => {
      // Loaded only here, because it imports much that `rampart serve` does not need.
      const { runGateway } = await import("../../../node/gateway/gateway.ts");
      const log = createEventLog(clock, writeToConsole);
      const program = {
        path: config,
        environment: {},
        parse: (values: Values) => parseGatewayConfiguration(values, process.env),
        restartKeys: gatewayRestartKeys,
        start: runGateway,
      };
      await runUntilSignal(() => startReloading(program, { log, clock }), log);
    });
}
