import { Command, Option } from "commander";
import { EventLog } from "../../../ca/issuance/event-log.ts";
import { Configuration } from "../../../config/configuration.ts";
import type { OperationLog } from "../../../foundation/events.ts";
import { ConfigurationFile } from "../../../node/files/configuration-file.ts";
import { serve } from "../../../node/serve/serve.ts";
import { ServeConfiguration } from "../../../node/serve/serve-configuration.ts";
import type { PluggedInImport } from "../../../node/server.ts";
import { LogOutput } from "../../../program/log-output.ts";
import { typedNumber } from "../../terminal/command-line.ts";
import { onCa, type Terminal } from "../../terminal/terminal.ts";
import { printUnit, runFollowing, unitOption } from "./following.ts";
import { joinProcesses, runProcesses } from "./processes.ts";
import { telemetryOf } from "./telemetry.ts";

interface ServeOptions {
  readonly config: string;
  readonly processes: number;
  readonly process?: number;
  readonly unit?: boolean;
}

/** `rampart serve`: runs the whole CA, in one process or in several. */
export function serveCommand(terminal: Terminal): Command {
  return new Command("serve")
    .description(
      "Serve the whole CA from here: native gRPC over TLS, its store in files, in Kubernetes or in a bucket.",
    )
    .option("-c, --config <file>", "the configuration", "rampart.toml")
    .option("-p, --processes <number>", "how many processes share the ports", typedNumber(999), 1)
    .option(...unitOption)
    .addOption(new Option("--process <number>").argParser(typedNumber(999)).hideHelp())
    .action(async (options: ServeOptions) => {
      const { config, processes, unit } = options;
      if (unit) return printUnit("serve", terminal);
      if (processes === 1) return serveHere(options, terminal);
      const log = EventLog.create(terminal.clock, LogOutput.open(process, terminal.clock).write);
      const argumentsOf = (i: number) => ["serve", "-c", config, "--process", String(i + 1)];
      return runProcesses(processes, argumentsOf, log);
    });
}

/** Loads the import when it is needed: a server without an import directory has no use for its parsers. */
const importPluggedIn: PluggedInImport = async (...imported) =>
  (await import("../import/plugged-in-import.ts")).importPluggedIn(...imported);

async function serveHere(
  { config, process: number }: ServeOptions,
  terminal: Terminal,
): Promise<void> {
  const { clock, environment } = terminal;
  const telemetry = await telemetryOf("serve", terminal);
  terminal.nameCa({ config });
  const logOutput = LogOutput.open(process, clock);
  const events = EventLog.create(clock, logOutput.write);
  const operation: OperationLog["operation"] = ({ detail, ...event }) =>
    events.operation({ ...event, ...(detail !== undefined && { detail: terminal.typed(detail) }) });
  const log = { ...events, operation };
  const child = number === undefined ? undefined : joinProcesses(number);
  const warn = createWarner(log);
  // Of several processes, only the first warns.
  if ((number ?? 1) === 1)
    ConfigurationFile.warnOfUnread(
      [...Configuration.keys, ...ServeConfiguration.keys],
      environment,
      log,
    );
  return runFollowing<ServeConfiguration>({
    path: config,
    environment,
    restartKeys: ServeConfiguration.restartKeys,
    parse: (values) => {
      const whole = ServeConfiguration.parse(values, environment);
      return number === undefined ? whole : childConfiguration(whole, number);
    },
    start: async (configuration, context) => {
      warn(configuration);
      const server = await serve(configuration, context);
      // If the server never gets an address, the end of the program reports it.
      server.address.then(child?.reportServing, () => {});
      const reconfigure = async (next: ServeConfiguration) => {
        const inPart = await server.reconfigure(next);
        warn(next);
        return inPart;
      };
      return { ...server, reconfigure };
    },
    context: {
      ...{ log, logOutput, clock, telemetry, importPluggedIn, peerProcesses: child?.peerProcesses },
      wordsFor: (words) => onCa(words, { config }),
    },
  });
}

/** Makes a function that logs each warning of a configuration, unless the configuration before had it too. */
function createWarner({ operation }: OperationLog): (configuration: ServeConfiguration) => void {
  let before: readonly string[] = [];
  return ({ ca: { warnings } }) => {
    for (const detail of warnings.filter((each) => !before.includes(each))) {
      operation({ event: "configuration-warning", level: "warning", detail });
    }
    before = warnings;
  };
}

/**
 * Makes the configuration of a child: it shares the ports of callers, and has a monitoring port and a log shard of its
 * own.
 */
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
