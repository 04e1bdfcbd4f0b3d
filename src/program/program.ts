import type { AddressInfo } from "node:net";
import type { Registry } from "prom-client";
import type { OperationalEvent, OperationLog, Readiness } from "../foundation/events.ts";
import type { Pause } from "../foundation/pause.ts";
import { SocketAddress } from "../foundation/socket-address.ts";
import { sparing } from "../foundation/sparing-log.ts";
import {
  addConfigurationMetrics,
  configurationReasons,
  type StatusOfConfiguration,
} from "./internal/configuration-status.ts";
import { Lifetime } from "./lifetime.ts";
import type { LogOutput } from "./log-output.ts";
import { Metrics } from "./metrics.ts";
import {
  type ConfigurationSource,
  type Reconfigure,
  RunningConfiguration,
} from "./running-configuration.ts";
import type { Telemetry } from "./telemetry.ts";

/** What a program gets from its verb or its test. */
export interface ProgramContext {
  readonly log: OperationLog;
  readonly clock: () => Date;
  /** Waits between attempts; by default on the timers of the platform. */
  readonly pause?: Pause | undefined;
  /** Reads the status of the configuration; absent if it cannot change while the program runs. */
  readonly configurationStatus?: StatusOfConfiguration | undefined;
  /** Where the lines of the log are written; absent if they stay in the process. */
  readonly logOutput?: LogOutput | undefined;
  /** Absent unless metrics or spans are exported. */
  readonly telemetry?: Telemetry | undefined;
  /** Aborts when a signal asks the program to end, even during its start. */
  readonly asked?: AbortSignal | undefined;
}

/** A port that accepts connections. */
export interface Port {
  readonly address: AddressInfo;
  /** Drains the port: it accepts no more connections, and aborts calls that take longer than the grace. */
  readonly close: (graceMilliseconds: number) => Promise<void>;
}

/** A program that has started. */
export interface RunningProgram<C> {
  readonly monitoringAddress: AddressInfo;
  readonly plaintextAddress?: AddressInfo | undefined;
  /** The address for RPCs, if the program takes any. Resolves once the program has a certificate. */
  readonly address?: Promise<AddressInfo> | undefined;
  readonly reconfigure: Reconfigure<C>;
  /** Ends the program: first what callers reach, last the port of probes and scrapes. */
  readonly close: (graceMilliseconds: number) => Promise<void>;
}

/** A program while it begins. What it opens it registers with {@link life}, to be shut down at the end. */
export type Program<Context extends ProgramContext = ProgramContext> = Context & {
  /** Its metrics, among them counts of the operational events that it logs. */
  readonly registry: Registry;
  readonly life: Lifetime;
  /** Registers the port of probes and scrapes, which answers until everything else has ended. */
  readonly monitor: (port: Promise<Port>) => Promise<AddressInfo>;
  /** Adds to a state that the program is not ready while it ends, and why its configuration file is not in force. */
  readonly withLife: <State extends Readiness>(state: State) => State;
};

/** Events that anybody who can connect may cause. Other refusals are logged with their calls. */
const ofHandshakes: readonly string[] = ["client-certificate-refused", "handshake-refused"];
const maximumAddresses = 10;
const callerOf = ({ event, peer, address }: OperationalEvent): unknown =>
  ofHandshakes.includes(event) ? (peer ?? address ?? "") : undefined;

/** Begins and runs programs. */
export const Program = {
  /**
   * Starts a program. What it has opened is shut down in reverse order when the program is closed, and also when its
   * start fails half-way, because remaining work would keep alive a process that no probe can reach.
   */
  async begin<Context extends ProgramContext, Begun>(
    context: Context,
    open: (program: Program<Context>) => Promise<Begun>,
  ): Promise<Begun & Pick<RunningProgram<never>, "close">> {
    const { configurationStatus, logOutput, telemetry, asked } = context;
    const registry = Metrics.create();
    const spared = sparing(context.log, context.clock, maximumAddresses, callerOf);
    const log = Metrics.countingOperations(spared, registry);
    addConfigurationMetrics(registry, configurationStatus);
    Metrics.addLostLines(registry, logOutput);
    const life = new Lifetime(log, asked);
    let monitoring: Port | undefined;
    life.endsWith("the monitoring port", (grace) => monitoring?.close(grace));
    await using failed = new AsyncDisposableStack();
    failed.defer(() => life.end(0));
    telemetry?.begin({ ...context, log, registry, life });
    const begun = await open({
      ...context,
      log,
      registry,
      life,
      monitor: async (port) => {
        monitoring = await port;
        return monitoring.address;
      },
      withLife: (state) => {
        const { aborted: isEnding } = life.ending;
        const lost = logOutput?.fault();
        const reasons = [
          ...(isEnding ? ["the program is ending"] : []),
          ...state.reasons,
          ...(lost === undefined ? [] : [lost]),
          ...(configurationStatus ? configurationReasons(configurationStatus()) : []),
        ];
        return { ...state, ready: state.ready && !isEnding, reasons };
      },
    });
    failed.move();
    return { ...begun, close: (graceMilliseconds) => life.end(graceMilliseconds) };
  },

  /** Adds the gauge of readiness. @param help Its line of help, which says what a ready program does. */
  addReadyGauge(
    { registry }: Pick<Program, "registry">,
    help: string,
    readiness: () => Readiness,
  ): void {
    const read = (): number => (readiness().ready ? 1 : 0);
    Metrics.addReadGauge(registry, { name: "rampart_ready", help, read });
  },

  /**
   * Runs a program until a signal tells it to end, even during its start. It follows its configuration file, and reads
   * the file at once on SIGHUP.
   *
   * @throws ConfigurationError, and what the program has thrown at its start or its end.
   */
  async run<C, Context extends ProgramContext>(
    {
      source,
      start,
      context,
    }: {
      readonly source: ConfigurationSource<C>;
      readonly start: (first: C, context: Context) => Promise<RunningProgram<C>>;
      readonly context: Context;
    },
    signal: Promise<string>,
  ): Promise<void> {
    const { log } = context;
    const asking = new AbortController();
    const ended = signal.then((name) => {
      const detail = `${name}: ends once the calls under way are answered, a second signal ends it at once`;
      log.operation({ event: "ending", level: "info", detail });
      asking.abort();
    });
    const { first, running } = await RunningConfiguration.open(source, context);
    if (asking.signal.aborted) return;
    const life = new Lifetime(log, asking.signal);
    await using _ = { [Symbol.asyncDispose]: () => life.end(graceMilliseconds) };
    process.on("SIGHUP", running.ask);
    life.endsWith("the watch for SIGHUP", () => void process.off("SIGHUP", running.ask));
    const program = await start(first, {
      ...context,
      configurationStatus: running.status,
      asked: asking.signal,
    });
    // No reload may begin while the program ends. One that is under way may hang at another server.
    const following = running.follow(program.reconfigure, life.ending);
    life.endsWith("the reload of the configuration", () => following);
    life.endsWith("the program", program.close);
    if (asking.signal.aborted) return;
    await announce(program, log, ended);
    await ended;
  },
};

/** How long calls under way may take after the signal to end: less than Kubernetes' 30 s. */
const graceMilliseconds = 25_000;

async function announce(
  { monitoringAddress, plaintextAddress, address }: RunningProgram<never>,
  { operation }: OperationLog,
  ended: Promise<void>,
): Promise<void> {
  const say = (what: string, port: AddressInfo): void => {
    const detail = `${what} on ${SocketAddress.format(port)}`;
    operation({ event: "listening", level: "info", detail });
  };
  say("monitoring", monitoringAddress);
  if (plaintextAddress) say("plaintext", plaintextAddress);
  const reached = address && (await Promise.race([ended, address]));
  if (reached) say("gRPC", reached);
}
