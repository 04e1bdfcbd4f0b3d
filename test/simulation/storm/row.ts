import { type ClientName, clients } from "./clients.ts";
import { peakOf } from "./meter.ts";
import type { StormParameters } from "./parameters.ts";
import { priceOfServe, priceOfWorker } from "./price.ts";
import type { Scenario } from "./scenario.ts";
import { Serve, type Server, worker } from "./server.ts";
import { type StormOutcome, simulateStorm } from "./storm.ts";

/** The meshes: what their clients are, and in which shares. */
export const meshes: Readonly<Record<string, Readonly<Partial<Record<ClientName, number>>>>> = {
  sidecars: { "pilot-agent": 1 },
  ambient: { ztunnel: 1 },
  Kmesh: { Kmesh: 1 },
  agents: { "rampart agent": 1 },
  mixed: { "pilot-agent": 0.4, ztunnel: 0.4, Kmesh: 0.1, "rampart agent": 0.1 },
  "agents of 0.1": { "rampart agent 0.1": 1 },
};

export const serverNames = ["Worker", "serve", "serve --processes 2"] as const;
type ServerName = (typeof serverNames)[number];

/** The figures of one run, as its JSON holds them. */
export interface StormRow {
  readonly scenario: string;
  readonly mesh: string;
  readonly server: ServerName;
  readonly workloads: number;
  readonly peakCalls: number;
  readonly peakServed: number;
  /** The highest rate of certificates, over a minute, from an hour after the storm on. */
  readonly echo: number;
  readonly lastServedSeconds: number | null;
  readonly expired: number;
  readonly refused: number;
  readonly unanswered: number;
  readonly inVain: number;
  readonly served: number;
  readonly dollars: number;
}

/** A row to simulate. */
export interface StormCase {
  readonly scenario: Scenario;
  readonly mesh: string;
  readonly server: ServerName;
  readonly workloads: number;
}

/** Simulates one row. */
export function simulateCase(
  { scenario, mesh, server, workloads }: StormCase,
  parameters: StormParameters,
  seed: number,
): { readonly row: StormRow; readonly outcome: StormOutcome } {
  const shares = Object.entries(meshes[mesh] ?? {}) as [ClientName, number][];
  const setting = {
    workloads,
    scenario,
    seed,
    mix: shares.map(([name, share]) => [clients[name], share] as const),
    lifetimeSeconds: parameters.lifetimeSeconds,
    latencySeconds: parameters.latencyMilliseconds / 1000,
  };
  const outcome = simulateStorm(setting, createServer(server, parameters));
  const { refused, unanswered, inVain, served, expired, lastServedSeconds } = outcome;
  const row = {
    scenario: scenario.name,
    mesh,
    server,
    workloads,
    peakCalls: Math.round(peakOf(outcome.callsPerSecond)),
    peakServed: Math.round(peakOf(outcome.servedPerSecond)),
    echo: echoOf(outcome, scenario),
    lastServedSeconds: lastServedSeconds === undefined ? null : Math.round(lastServedSeconds),
    expired,
    refused,
    unanswered,
    inVain: Math.round(inVain),
    served,
    dollars: Number(priceOf(server, outcome, scenario, parameters).toFixed(2)),
  };
  return { row, outcome };
}

function createServer(name: ServerName, parameters: StormParameters): Server {
  if (name === "Worker") return worker;
  const processes = processesOf(name);
  const { serveMicroseconds, serveTwiceMicroseconds } = parameters;
  const { connectionPlaces, streamPlaces, backlog } = parameters;
  return new Serve({
    processes,
    certificateSeconds: (processes === 1 ? serveMicroseconds : serveTwiceMicroseconds) / 1e6,
    handshakeSeconds: parameters.connectionMicroseconds / 1e6,
    refusalSeconds: parameters.refusalMicroseconds / 1e6,
    connectionPlaces,
    streamPlaces,
    backlog,
  });
}

const processesOf = (name: ServerName): number => (name === "serve --processes 2" ? 2 : 1);

function priceOf(
  name: ServerName,
  { servedPerSecond }: StormOutcome,
  { endsAt }: Scenario,
  { workerMicroseconds, prices }: StormParameters,
): number {
  return name === "Worker"
    ? priceOfWorker(servedPerSecond, workerMicroseconds / 1e6, prices)
    : priceOfServe(processesOf(name), endsAt, prices);
}

function echoOf(
  { servedPerSecond, lastServedSeconds }: StormOutcome,
  { beginsAt }: Scenario,
): number {
  if (lastServedSeconds === undefined) return 0;
  const from = Math.ceil(beginsAt + lastServedSeconds + 3600);
  const later = servedPerSecond.subarray(from);
  // The second in which a run ends is cut, so its minute does not count.
  const minutes = Math.floor((later.length - 1) / 60);
  const rates = Float64Array.from({ length: minutes }, (_, minute) => {
    return later.subarray(60 * minute, 60 * minute + 60).reduce((sum, rate) => sum + rate, 0) / 60;
  });
  return Number(peakOf(rates).toFixed(1));
}
