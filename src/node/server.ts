import type { AddressInfo } from "node:net";
import type { EventLog } from "../ca/issuance/event-log.ts";
import type { Mint } from "../ca/mint.ts";
import type { Readiness } from "../foundation/events.ts";
import type { PeerProcesses } from "../program/metrics.ts";
import { Program, type ProgramContext, type RunningProgram } from "../program/program.ts";
import { createProbedApp } from "../transport/http/probes.ts";
import type { ListenAddress } from "./files/places.ts";
import { listenInPlaintext } from "./http/listener.ts";
import { createMonitoringRoutes } from "./http/routes.ts";

/** What a server needs from the process that runs it. */
export interface ServerContext extends ProgramContext {
  readonly log: EventLog;
  /** The timeout of requests to issuers and API servers, if not the default. */
  readonly fetchTimeoutMilliseconds?: number | undefined;
  /** Waits for a load of the store; by default half a second at most. */
  readonly waitForLoad?: ((load: Promise<void>) => Promise<void>) | undefined;
  /** Returns a number from 0 to below 1; by default `Math.random`. */
  readonly random?: (() => number) | undefined;
  /** Imports the CA in `IMPORT_DIRECTORY`. */
  readonly importPluggedIn?: PluggedInImport | undefined;
  /** Adds to the words of a command what it needs to act on this CA. */
  readonly wordsFor?: ((words: string) => string) | undefined;
  /** Present in each of several processes that form one server. */
  readonly peerProcesses?: PeerProcesses | undefined;
}

/**
 * Imports the CA in a directory, unless the store has its certificate already.
 *
 * @throws OperatorError for a CA that is refused.
 */
export type PluggedInImport = (mint: Mint, directory: string, now: Date) => Promise<void>;

/** A running program that serves RPCs. `address` resolves once it has a certificate. */
export interface RunningServer<C> extends RunningProgram<C> {
  readonly address: Promise<AddressInfo>;
}

/** A program beside the CA, which follows the file of its configuration. */
export interface FollowingProgram<C> {
  /** The keys of the file. */
  readonly keys: readonly string[];
  /** The keys of the configuration whose changes only a restart applies. */
  readonly restartKeys: readonly string[];
  /** @param environment Where a pod finds its API server. No secret is taken from it. */
  readonly parse: (
    values: Readonly<Record<string, unknown>>,
    environment: Readonly<Record<string, string | undefined>>,
  ) => C;
  readonly start: (first: C, context: ServerContext) => Promise<RunningProgram<C>>;
}

/** The port and readiness of a program that serves no calls. */
interface Unreached {
  readonly listen: ListenAddress;
  readonly readiness: () => Readiness;
  readonly readyWhen: string;
}

/** Opens the only port of a program that serves no calls, for probes and metrics. @returns Its address. */
export async function monitorWork(
  program: Program<ServerContext>,
  { listen, readiness, readyWhen }: Unreached,
): Promise<Pick<RunningProgram<never>, "monitoringAddress">> {
  const { registry, log } = program;
  const readinessNow = (): Readiness => program.withLife(readiness());
  Program.addReadyGauge(program, readyWhen, readinessNow);
  const app = createProbedApp(readinessNow);
  const routes = { rpcs: new Map(), fetch: async (request: Request) => app.fetch(request), log };
  const monitoring = createMonitoringRoutes(routes, () => registry.metrics());
  return { monitoringAddress: await program.monitor(listenInPlaintext(monitoring, listen)) };
}
