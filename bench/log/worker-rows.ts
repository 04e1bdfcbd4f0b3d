import { type Edge, startEdge } from "../edge/edge.ts";
import { startKeyServer } from "../key-server.ts";
import { callsOf, inParallel } from "../loads.ts";
import { median } from "../measurement/median.ts";
import type { Row } from "../measurement/report.ts";
import { createCluster, createWorkload } from "../workload.ts";

/** What the log of a Worker has cost so far. */
type Counts = Readonly<Record<"calls" | "rows" | "puts" | "gets", number>>;

const waiting = 64;
const warmUpCalls = 8000;
const rounds = 121;

/** Few, so that a transient load of the machine covers a whole round. */
const timesPerRound = { floor: 100, alone: 20, waiting: 2 * waiting };

type Kind = "off" | "on";

interface Loads {
  /** Calls of CreateCertificate, without a log or with one. */
  readonly call: (log: Kind, times: number, callers: number) => Promise<void>;
  readonly floor: (times: number) => Promise<void>;
}

/** What the log costs on Workers: CPU of the whole process, and money. */
export async function workerLogRows(): Promise<Row[]> {
  const cluster = await createCluster("https://cluster.example", "RS256");
  const workload = await createWorkload(cluster);
  const keyServer = await startKeyServer([cluster]);
  const table = { issuer: cluster.issuer, jwks_uri: keyServer.urlOf(cluster) };
  const edge = await startEdge({ issuers: [table], hasLog: true });
  try {
    await edge.send("/bench/first-authority", {}, "");
    const { call, floor } = callsOf(edge, workload);
    const loads: Loads = {
      floor,
      call: (log, times, callers) => inParallel(times, callers, () => call({ "bench-log": log })),
    };
    return [...(await cpuRows(edge, loads)), ...(await publicationRows(edge, loads))];
  } finally {
    await edge.close();
    keyServer.close();
  }
}

/** The append alone; {@link publicationRows} has what the alarm does. */
async function cpuRows(edge: Edge, { call, floor }: Loads): Promise<Row[]> {
  for (const log of ["off", "on"] as const) await call(log, warmUpCalls, waiting);
  await floor(warmUpCalls);
  const costOf = async (times: number, work: (times: number) => Promise<void>): Promise<number> => {
    const before = edge.cpu();
    await work(times);
    return (edge.cpu() - before) / times;
  };
  const onTop = async (times: number, callers: number): Promise<number> => {
    const off = await costOf(times, () => call("off", times, callers));
    return (await costOf(times, () => call("on", times, callers))) - off;
  };
  const costs: { floor: number; alone: number; waiting: number }[] = [];
  for (let i = 0; i < rounds; i++) {
    costs.push({
      floor: await costOf(timesPerRound.floor, floor),
      alone: await onTop(timesPerRound.alone, 1),
      waiting: await onTop(timesPerRound.waiting, waiting),
    });
  }
  return [
    {
      name: "log of a Worker on top, one waiting / crypto floor",
      value: median(costs.map((each) => each.alone / each.floor)),
    },
    {
      name: "log of a Worker on top, 64 waiting / crypto floor",
      value: median(costs.map((each) => each.waiting / each.floor)),
      budget: 1.5,
    },
  ];
}

const certificatesPerDay = 1_000_000;
const days = 30;
const publicationSeconds = 10;
const publicationsMeasured = 20;

/**
 * The work of the alarm, at a million certificates a day and a publication every ten seconds: CPU for each
 * certificate, and dollars. R2 is simulated in the same process here, so that its CPU is in the row, and is
 * nobody's at the edge. Each certificate comes alone, which is the dearest way.
 */
async function publicationRows(edge: Edge, { call, floor }: Loads): Promise<Row[]> {
  const publish = () => edge.send("/bench/log-publish", {}, "");
  const perPublication = Math.round((certificatesPerDay * publicationSeconds) / 86_400);
  const shares: number[] = [];
  await publish();
  const before = await countsOf(edge);
  for (let i = 0; i < publicationsMeasured; i++) {
    await call("on", perPublication, 1);
    const start = edge.cpu();
    await publish();
    const published = edge.cpu();
    await floor(timesPerRound.floor);
    const ofFloor = (edge.cpu() - published) / timesPerRound.floor;
    shares.push((published - start) / perPublication / ofFloor);
  }
  return [
    {
      name: `publication of a Worker's log, ${perPublication} certificates each, R2 included / crypto floor`,
      value: median(shares),
    },
    moneyRow(before, await countsOf(edge)),
  ];
}

/**
 * Dollars for a million certificates. The rates are Cloudflare's for Durable Objects and R2 (Workers Paid, 2026).
 * One object that is awake all month is within the included duration.
 */
function moneyRow(before: Counts, after: Counts): Row {
  const publications = (days * 86_400) / publicationSeconds;
  const perMonth = (name: keyof Counts): number =>
    ((after[name] - before[name]) / publicationsMeasured) * publications;
  const million = 1_000_000;
  const dollars =
    (0.15 / million) * Math.max(0, perMonth("calls") + publications - million) +
    (1.0 / million) * Math.max(0, perMonth("rows") - 50 * million) +
    (4.5 / million) * perMonth("puts") +
    (0.36 / million) * perMonth("gets");
  return {
    name: "log of a Worker, a million certificates a day",
    value: (dollars * million) / (certificatesPerDay * days),
    unit: "$/million",
    budget: 0.4,
  };
}

async function countsOf(edge: Edge): Promise<Counts> {
  const { body } = await edge.send("/bench/log-counts", {}, "");
  return JSON.parse(body.toString()) as Counts;
}
