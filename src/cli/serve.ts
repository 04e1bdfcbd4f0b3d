import { once } from "node:events";
import { Command } from "commander";
import { consoleLog } from "../config/event-log.ts";
import { readConfigurationFile } from "../node/configuration-file.ts";
import { addressText } from "../node/listen-address.ts";
import { nodeCryptography } from "../node/node-cryptography.ts";
import { type RunningServer, serve } from "../node/serve.ts";
import { parseServeConfiguration } from "../node/serve-configuration.ts";
import { useCryptography } from "../pki/cryptography.ts";
import { orObstacle } from "./obstacle.ts";

/** How long calls that have begun may take when the process is told to end: less than Kubernetes' 30 s. */
const graceMilliseconds = 25_000;

interface ServeOptions {
  readonly config: string;
}

/** `rampart serve`: the whole CA as one process. */
export function serveCommand(clock: () => Date): Command {
  return new Command("serve")
    .description("Serve the whole CA from this process: native gRPC over TLS, files as its store.")
    .option("-c, --config <file>", "the configuration", "rampart.toml")
    .action(async ({ config }: ServeOptions) => {
      useCryptography(nodeCryptography);
      const configuration = await orObstacle(async () =>
        parseServeConfiguration(await readConfigurationFile(config, process.env)),
      );
      for (const detail of configuration.ca.warnings) {
        consoleLog.operation({ event: "configuration-warning", level: "warning", detail });
      }
      await runUntilTold(await orObstacle(() => serve(configuration, { log: consoleLog, clock })));
    });
}

/** A server, or what has nothing to show but how it is. */
type Running = Pick<RunningServer, "monitoringAddress" | "close"> & Partial<RunningServer>;

/** Serves until SIGTERM or SIGINT; a second one ends it at once. */
export async function runUntilTold(server: Running): Promise<void> {
  const told = new AbortController();
  const signals = ["SIGTERM", "SIGINT"].map((name) =>
    once(process, name, { signal: told.signal }).then(() => told.abort()),
  );
  say("monitoring", addressText(server.monitoringAddress));
  if (server.plaintextAddress) say("plaintext", addressText(server.plaintextAddress));
  try {
    const opening = server.address ?? Promise.resolve(undefined);
    const address = await orObstacle(() => Promise.race([opening, ...signals.map(ending)]));
    if (address) say("gRPC", addressText(address));
    await Promise.race(signals);
  } finally {
    told.abort();
    await server.close(graceMilliseconds);
  }
}

const ending = (signal: Promise<void>): Promise<undefined> => signal.then(() => undefined);

function say(what: string, address: string): void {
  const detail = `${what} on ${address}`;
  consoleLog.operation({ event: "listening", level: "info", detail });
}
