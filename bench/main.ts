import { agentRows } from "./agent/rows.ts";
import { bundleWorker, startupMilliseconds } from "./bundle.ts";
import { type Edge, startEdge } from "./edge.ts";
import { firstStart } from "./first-start.ts";
import { type KeyServer, startKeyServer } from "./key-server.ts";
import { type Load, loadsOf, unknownKeyStorm } from "./loads.ts";
import { median } from "./median.ts";
import { memoryRows } from "./memory.ts";
import { nodeRows } from "./node/rows.ts";
import { printRows, type Row } from "./report.ts";
import { createCluster, createWorkload, type Workload } from "./workload.ts";

/**
 * V8 still compiles, on a thread beside, after the first ten thousands: what is judged is an isolate at
 * work, not one that starts.
 */
const warmUpTimes = 30_000;
const rounds = 301;

type Loads = ReturnType<typeof loadsOf>;

/** Few, so that all of a round falls into the same mood of the machine: those last for tenths of a second. */
const timesPerRound: Readonly<Record<keyof Loads, number>> = {
  floor: 100,
  issue: 100,
  reference: 2,
  echo: 20,
  connect: 20,
  grpcWeb: 20,
};
type Costs = Readonly<Record<keyof Loads, number>>;

/** CPU of one call of each load, in microseconds, in each of the rounds; in a round they take turns. */
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
 * A ratio is taken within a round, from neighbours that had the same machine, and the median of them
 * judged: what slows the machine down for a while slows both sides of a ratio.
 *
 * Most rounds are without a collection of garbage, which falls on one load for what all have left; so a
 * ratio of sums, collections included, stands beside for who wants to see it.
 */
function costRows(costs: readonly Costs[]): Row[] {
  const typical = (number: (cpu: Costs) => number): number => median(costs.map(number));
  const total = (number: (cpu: Costs) => number): number =>
    costs.reduce((sum, cpu) => sum + number(cpu), 0);
  const absolute = Object.keys(costs[0] ?? {}).map((name) => ({
    name: `CPU of ${name}`,
    value: typical((cpu) => cpu[name as keyof Loads]),
    unit: "µs",
  }));
  return [
    ...absolute,
    {
      name: "reference on @peculiar/x509 / crypto floor",
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
    {
      name: "credential and CSR to PEM / crypto floor",
      value: typical((cpu) => cpu.issue / cpu.floor),
      budget: 1.5,
    },
    {
      name: "Connect / (floor + echo)",
      value: typical((cpu) => cpu.connect / (cpu.floor + cpu.echo)),
      budget: 2.5,
    },
    {
      name: "gRPC-Web / (floor + echo)",
      value: typical((cpu) => cpu.grpcWeb / (cpu.floor + cpu.echo)),
      budget: 3.5,
    },
  ];
}

/** What a steady state reads and fetches, which must be nothing, and what a storm fetches. */
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
  // The store is looked at once a minute, so a look may fall among the thousand: one list, one get.
  return [
    {
      name: "KV reads in 1000 requests, looks once a minute aside",
      value: reads <= 2 ? 0 : reads,
      budget: 0,
    },
    { name: "JWKS fetches in 1000 requests", value: steady, budget: 0 },
    { name: "JWKS fetches in a storm of 1000 unknown keys", value: storm, budget: 1 },
  ];
}

/** What answering requests costs, in workerd and in Node, for one workload of one cluster. */
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
  const edge = await startEdge({ issuers: [table] });
  try {
    await edge.send("/bench/found", {}, "");
    const loads = loadsOf(edge, workload);
    const costs = costRows(await measure(edge, loads));
    return [...costs, ...(await countRows(edge, fetches, loads, workload))];
  } finally {
    await edge.close();
  }
}

async function run(): Promise<Row[]> {
  const requests = await requestRows();
  const { gzipKibibytes } = bundleWorker("src/worker/main.ts");
  return [
    ...requests,
    { name: "bundle, gzip", value: gzipKibibytes, unit: "KiB", budget: 150 },
    { name: "start-up CPU", value: startupMilliseconds(), unit: "ms", budget: 60 },
    ...(await memoryRows()),
    ...(await agentRows()),
    { name: "npm start to first certificate", value: await firstStart(), unit: "s", budget: 10 },
  ];
}

process.exitCode = printRows(await run()) ? 0 : 1;
