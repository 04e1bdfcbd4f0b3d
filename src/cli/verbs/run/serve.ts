import type { AddressInfo } from "node:net";
import { Command, InvalidArgumentError, Option } from "commander";
import { createEventLog } from "../../../ca/issuance/audit-event.ts";
import { type OperationLog, writeToConsole } from "../../../foundation/events.ts";
import { addressText } from "../../../node/http/listen-address.ts";
import { serve } from "../../../node/serve/serve.ts";
import {
  parseServeConfiguration,
  type ServeConfiguration,
  serveRestartKeys,
} from "../../../node/serve/serve-configuration.ts";
import type { PluggedInImport, RunningServer, ServerContext } from "../../../node/server.ts";
import type { Values } from "../../../program/running-configuration.ts";
import { orOperatorError } from "../../terminal/failures.ts";
import { watchSignals } from "../../terminal/signals.ts";
import type { Terminal } from "../../terminal/terminal.ts";
import { joinProcesses, runProcesses } from "./processes.ts";
import { startReloading } from "./reloading.ts";

/** The time for calls under way once the process gets a signal: less than Kubernetes' 30 s. */
const graceMilliseconds = 25_000;

interface ServeOptions {
  readonly config: string;
  readonly processes: number;
  readonly process?: number;
}

/** `rampart serve`: the whole CA, in one process or in several. */
export function serveCommand(terminal: Terminal): Command {
  return new Command("serve")
    .description(
      "Serve the whole CA from here: native gRPC over TLS, its store in files, in Kubernetes or in a bucket.",
    )
    .option("-c, --config <file>", "the configuration", "rampart.toml")
    .option("-p, --processes <number>", "how many processes share the ports", parseNumber, 1)
    .addOption(new Option("--process <number>").argParser(parseNumber).hideHelp())
    .action(async (options: ServeOptions) => {
      const log = createEventLog(terminal.clock, writeToConsole);
      const { config, processes } = options;
      if (processes === 1) return runUntilSignal(() => startServing(options, terminal, log), log);
      const argumentsOf = (i: number) => ["serve", "-c", config, "--process", String(i + 1)];
      return runProcesses(processes, argumentsOf, log);
    });
}

/** Loaded when it is needed: a server without an import directory has no use for its parsers. */
const importPluggedIn: PluggedInImport = async (...imported) =>
  (await import("../import/plugged-in-import.ts")).importPluggedIn(...imported);

async function startServing(
  { config, process: number }: ServeOptions,
  { clock, environment }: Terminal,
  log: ServerContext["log"],
): Promise<RunningServer> {
  const child = number === undefined ? undefined : joinProcesses(number);
  const warn = createWarner(log);
  const server = await startReloading(
    {
      path: config,
      environment,
      restartKeys: serveRestartKeys,
      parse: (values: Values) => {
        const whole = parseServeConfiguration(values, environment);
        return number === undefined ? whole : childConfiguration(whole, number);
      },
      start: async (configuration, context) => {
        warn(configuration);
        const started = await serve(configuration, context);
        const reconfigure = async (next: ServeConfiguration) => {
          const inPart = await started.reconfigure(next);
          warn(next);
          return inPart;
        };
        return { ...started, reconfigure };
      },
    },
    { log, clock, importPluggedIn, peerProcesses: child?.peerProcesses },
  );
  // `runUntilSignal` reports a server that never gets an address.
  server.address.then(child?.reportServing, () => {});
  return server;
}

/** Logs each warning of a configuration unless the one before had it too. */
function createWarner({ operation }: OperationLog): (configuration: ServeConfiguration) => void {
  let before: readonly string[] = [];
  return ({ ca: { warnings } }) => {
    for (const detail of warnings.filter((each) => !before.includes(each))) {
      operation({ event: "configuration-warning", level: "warning", detail });
    }
    before = warnings;
  };
}

/** The child processes share the ports of callers; each has a monitoring port of its own. */
function childConfiguration(whole: ServeConfiguration, number: number): ServeConfiguration {
  const { listen, plaintextListen, monitoringListen } = whole;
  return {
    ...whole,
    logShard: number - 1,
    listen: { ...listen, reusePort: true },
    plaintextListen: plaintextListen && { ...plaintextListen, reusePort: true },
    monitoringListen: {
      ...monitoringListen,
      port: monitoringListen.port === 0 ? 0 : monitoringListen.port + number - 1,
    },
  };
}

function parseNumber(text: string): number {
  if (/^[1-9][0-9]{0,2}$/.test(text)) return Number(text);
  throw new InvalidArgumentError("must be a number from 1 to 999");
}

/** A server, or a program with a monitoring port alone. */
export type Running = Pick<RunningServer, "monitoringAddress" | "close"> & Partial<RunningServer>;

/**
 * Starts a server and runs it until SIGTERM or SIGINT, at whatever moment one comes. A second signal ends
 * the process at once.
 */
export async function runUntilSignal(
  start: () => Promise<Running>,
  log: OperationLog,
): Promise<void> {
  using watch = watchSignals();
  const ended = watch.signal.then((name) => {
    const detail = `${name}: ends once the calls under way are answered, a second signal ends it at once`;
    log.operation({ event: "ending", level: "info", detail });
  });
  const server = await start();
  try {
    logAddress(log, "monitoring", server.monitoringAddress);
    if (server.plaintextAddress) logAddress(log, "plaintext", server.plaintextAddress);
    const address = await orOperatorError(() => Promise.race([ended, server.address]));
    if (address) logAddress(log, "gRPC", address);
    await ended;
  } finally {
    await server.close(graceMilliseconds);
  }
}

function logAddress(log: OperationLog, what: string, address: AddressInfo): void {
  const detail = `${what} on ${addressText(address)}`;
  log.operation({ event: "listening", level: "info", detail });
}
