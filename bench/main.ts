import { parseArgs } from "node:util";
import { optionsOf } from "../test/testkit/programs/options.ts";
import { discoveryRows } from "./agent/discovery/rows.ts";
import { agentRows } from "./agent/rows.ts";
import { crlRows } from "./crl-rows.ts";
import { bundleWorker, startupMilliseconds } from "./edge/bundle.ts";
import { type Edge, startEdge } from "./edge/edge.ts";
import { hostileIssuerRows } from "./edge/hostile-issuers.ts";
import { memoryRows } from "./edge/memory.ts";
import { firstStart } from "./first-start.ts";
import { flatRows } from "./flat/rows.ts";
import { type KeyServer, startKeyServer } from "./key-server.ts";
import { type Load, loadsOf, unknownKeyStorm } from "./loads.ts";
import { logRows } from "./log/rows.ts";
import { median } from "./measurement/median.ts";
import { printRows, type Row } from "./measurement/report.ts";
import { nodeRows } from "./node/rows.ts";
import { postQuantumRows } from "./post-quantum-rows.ts";
import { tokenAudience } from "./worker/crypto-floor.ts";
import { createCluster, createWorkload, type Workload } from "./workload.ts";

/**
 * V8 still compiles on another thread during the first ten thousand calls. The budgets are about a warm
 * isolate.
 */
const warmUpTimes = 30_000;
const rounds = 301;

type Loads = ReturnType<typeof loadsOf>;

/** Few, so that a transient load of the machine, which lasts tenths of a second, covers a whole round. */
const timesPerRound: Readonly<Record<keyof Loads, number>> = {
  floor: 100,
  issue: 100,
  tokenFloor: 100,
  token: 100,
  reference: 2,
  echo: 20,
  connect: 20,
  grpcWeb: 20,
  connectToken: 20,
};
type Costs = Readonly<Record<keyof Loads, number>>;

/** CPU of one call of each load in microseconds, for each round. In a round the loads take turns. */
async function measure(edge: Edge, loads: Loads): Promise<Costs[]> {
  const entries = Object.entries(loads) as [keyof Loads, Load][];
  for (const [name, load] of entries) await load(name === "reference" ? 300 : warmUpTimes);
  const costs: Costs[] = [];
  for (let round = 0; round < rounds; round++) {
    const cost: Partial<Record<keyof Loads, number>> = {};
    for (const [name, load] of entries) {
      const times = timesPerRound[name];
      const before = edge.cpu();
      await load(times);
      cost[name] = (edge.cpu() - before) / times;
    }
    costs.push(cost as Costs);
  }
  return costs;
}

/**
 * Budgets judge the median of ratios that are each taken within one round, because a transient load slows
 * both sides of such a ratio.
 *
 * Most rounds have no garbage collection: one load pays for what all have left. Ratios of sums, which
 * include collections, are printed beside them.
 */
function costRows(costs: readonly Costs[]): Row[] {
  const typical = (number: (cpu: Costs) => number): number => median(costs.map(number));
  const total = (number: (cpu: Costs) => number): number =>
    costs.reduce((sum, cpu) => sum + number(cpu), 0);
  const ratio = (name: string, of: (cpu: Costs) => number, budget: number): Row => ({
    name,
    value: typical(of),
    budget,
  });
  const absolute = Object.keys(costs[0] ?? {}).map((name) => ({
    name: `CPU of ${name}`,
    value: typical((cpu) => cpu[name as keyof Loads]),
    unit: "µs",
  }));
  return [
    ...absolute,
    {
      name: "the same by jose and @peculiar/x509's generators / crypto floor",
      value: typical((cpu) => cpu.reference / cpu.floor),
    },
    {
      name: "credential and CSR to PEM / crypto floor, of sums",
      value: total((cpu) => cpu.issue) / total((cpu) => cpu.floor),
    },
    {
      name: "Connect / (floor + echo), of sums",
      value: total((cpu) => cpu.connect) / total((cpu) => cpu.floor + cpu.echo),
    },
    ratio("credential and CSR to PEM / crypto floor", (cpu) => cpu.issue / cpu.floor, 1.5),
    ratio("Connect / (floor + echo)", (cpu) => cpu.connect / (cpu.floor + cpu.echo), 2.1),
    ratio("gRPC-Web / (floor + echo)", (cpu) => cpu.grpcWeb / (cpu.floor + cpu.echo), 2.3),
    ratio("credential to JWT-SVID / crypto floor", (cpu) => cpu.token / cpu.tokenFloor, 1.9),
    ratio("a JWT-SVID / a certificate, of the credential", (cpu) => cpu.token / cpu.issue, 1),
    ratio("a JWT-SVID / a certificate, over Connect", (cpu) => cpu.connectToken / cpu.connect, 1),
  ];
}

/** Reads and fetches in the steady state, which must be none, and fetches in a storm of unknown keys. */
async function countRows(
  edge: Edge,
  fetches: () => number,
  { connect }: Loads,
  workload: Workload,
): Promise<Row[]> {
  const readsBefore = await edge.storeReads();
  const fetchesBefore = fetches();
  await connect(1000);
  const reads = (await edge.storeReads()) - readsBefore;
  const steady = fetches() - fetchesBefore;
  await unknownKeyStorm(edge, workload)(1000);
  const storm = fetches() - fetchesBefore - steady;
  // The Worker reads the store once a minute, so one list and one get may fall among the thousand.
  return [
    {
      name: "KV reads in 1000 requests, without the minutely one",
      value: reads <= 2 ? 0 : reads,
      budget: 0,
    },
    { name: "JWKS fetches in 1000 requests", value: steady, budget: 0 },
    { name: "JWKS fetches in a storm of 1000 unknown keys", value: storm, budget: 1 },
  ];
}

/** The cost of requests in workerd and in Node, for one workload of one cluster. */
async function requestRows(): Promise<Row[]> {
  const cluster = await createCluster("https://cluster.example", "RS256");
  const workload = await createWorkload(cluster);
  const keyServer = await startKeyServer([cluster]);
  const keysUrl = keyServer.urlOf(cluster);
  try {
    return [
      ...(await edgeRows({ issuer: cluster.issuer, jwks_uri: keysUrl }, workload, keyServer)),
      ...(await nodeRows(cluster, workload, keysUrl)),
    ];
  } finally {
    keyServer.close();
  }
}

async function edgeRows(
  table: { readonly issuer: string; readonly jwks_uri: string },
  workload: Workload,
  { fetches }: KeyServer,
): Promise<Row[]> {
  const issuers = [{ ...table, jwt_audiences: [tokenAudience] }];
  const edge = await startEdge({ issuers, bindings: { JWT_ISSUER: "https://ca.example" } });
  try {
    await edge.send("/bench/first-authority", {}, "");
    const loads = loadsOf(edge, workload);
    const costs = costRows(await measure(edge, loads));
    return [...costs, ...(await countRows(edge, fetches, loads, workload))];
  } finally {
    await edge.close();
  }
}

async function run(): Promise<Row[]> {
  // First, because a taken port of `npm start` would throw all other rows away.
  const secondsToCertificate = await firstStart();
  const requests = await requestRows();
  const { gzipKibibytes } = bundleWorker("src/worker/main.ts");
  const withConsole = bundleWorker("src/worker/main-with-console.ts").gzipKibibytes;
  const withLog = bundleWorker("src/worker/main-with-log.ts").gzipKibibytes;
  const withKeys = bundleWorker("src/worker/main-with-keys.ts").gzipKibibytes;
  return [
    ...requests,
    // jose costs 5 KiB of it, and tables of claims for tokens of other platforms 5 more.
    { name: "bundle, gzip", value: gzipKibibytes, unit: "KiB", budget: 152 },
    { name: "bundle with the console, gzip", value: withConsole, unit: "KiB", budget: 180 },
    {
      name: "bundle with key services, gzip, on top",
      value: withKeys - withLog,
      unit: "KiB",
      budget: 8,
    },
    // The main module with the log has the console, too.
    ...(await logRows(withConsole)),
    ...(await crlRows()),
    ...(await postQuantumRows()),
    { name: "start-up CPU", value: startupMilliseconds(), unit: "ms", budget: 60 },
    ...(await flatRows()),
    ...(await memoryRows()),
    ...(await hostileIssuerRows()),
    ...(await agentRows()),
    ...(await discoveryRows()),
    { name: "npm start to first certificate", value: secondsToCertificate, unit: "s", budget: 10 },
  ];
}

// It has no options, and refuses them before minutes of work.
optionsOf("npm run bench    measures everything, against the budgets", (args) =>
  parseArgs({ args }),
);
process.exitCode = printRows(await run()) ? 0 : 1;
