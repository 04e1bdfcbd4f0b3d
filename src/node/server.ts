import type { AddressInfo } from "node:net";
import type { EventLog } from "../ca/issuance/audit-event.ts";
import type { Mint } from "../ca/mint.ts";
import type { Readiness } from "../foundation/events.ts";
import type { PeerProcesses } from "../program/metrics.ts";
import { Program, type ProgramContext, type RunningProgram } from "../program/program.ts";
import { createProbedApp } from "../transport/http/probes.ts";
import type { ListenAddress } from "./files/places.ts";
import { listenInPlaintext } from "./http/listener.ts";
import { createMonitoringRoutes } from "./http/routes.ts";

/** What a server takes from the process that runs it. */
export interface ServerContext extends ProgramContext {
  readonly log: EventLog;
  /** The timeout of requests to issuers and API servers, which has a default. */
  readonly fetchTimeoutMilliseconds?: number | undefined;
  /** Waits for a load of the store, by default for a moment. */
  readonly waitForLoad?: ((load: Promise<void>) => Promise<void>) | undefined;
  /** At least 0 and less than 1; by default the platform's random numbers. */
  readonly random?: (() => number) | undefined;
  /** Imports the CA in `IMPORT_DIRECTORY`. */
  readonly importPluggedIn?: PluggedInImport | undefined;
  /** The words of a verb as somebody types them for this CA. */
  readonly wordsFor?: ((words: string) => string) | undefined;
  /** Present in each of several processes that form one server. */
  readonly peerProcesses?: PeerProcesses | undefined;
}

/**
 * Imports the CA in a directory, unless the store has its certificate already.
 *
 * @throws OperatorError for one that an import refuses.
 */
export type PluggedInImport = (mint: Mint, directory: string, now: Date) => Promise<void>;

/** A running program that takes RPCs. `address` resolves once it has a certificate. */
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

/** A program that works by itself, and how it shows that. */
interface Unreached {
  readonly listen: ListenAddress;
  readonly readiness: () => Readiness;
  readonly readyWhen: string;
}

/** Opens the only port of a program that takes no calls: probes and metrics. @returns Where it is. */
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
