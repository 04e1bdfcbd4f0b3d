import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { lastingFolder } from "../../test/testkit/temporary-folder.ts";
import { startKeyServer } from "../key-server.ts";
import type { Load } from "../loads.ts";
import { median } from "../measurement/median.ts";
import type { Row } from "../measurement/report.ts";
import { http2Load, istioCall } from "../node/http2-load.ts";
import { type ProcessUnderTest, startProcess } from "../node/process-under-test.ts";
import { serveValues } from "../node/serve-values.ts";
import { createCluster, createWorkload } from "../workload.ts";

const waiting = 64;
const warmUpTimes = 4000;
const rounds = 15;
const timesPerRound = 1500;
const aloneTimes = 60;

/** A server with or without a log, and calls to it. */
interface Server {
  readonly process: ProcessUnderTest;
  readonly waiting: Load;
  readonly alone: Load;
  readonly close: () => void;
}

/** What a log in a bucket that answers after 20 ms costs `rampart serve`: CPU, time, and requests. */
export async function bucketLogRows(): Promise<Row[]> {
  const bucket = fork(fileURLToPath(new URL("slow-bucket.ts", import.meta.url)));
  const [{ port }] = await once(bucket, "message");
  const cluster = await createCluster("https://cluster.example", "RS256");
  const keyServer = await startKeyServer([cluster]);
  const call = istioCall(await createWorkload(cluster));
  const issuers = [{ issuer: cluster.issuer, jwks_uri: keyServer.urlOf(cluster) }];
  const start = async (log: object): Promise<Server> => {
    const process = startProcess();
    const values = { ...serveValues(await lastingFolder()), PROPAGATION_INTERVAL: "4s" };
    const { port: own } = await process.tell({
      act: "serve",
      values: { ...values, ISSUERS: issuers, ...log },
    });
    const [many, one] = [
      http2Load(own, () => call, {}, waiting),
      http2Load(own, () => call, {}, 1),
    ];
    const close = (): void => {
      for (const each of [many, one]) each.close();
      process.end();
    };
    return { process, waiting: many.load, alone: one.load, close };
  };
  const credentials = join(await lastingFolder(), "credentials");
  await writeFile(credentials, "[default]\naws_access_key_id = a\naws_secret_access_key = b\n");
  const servers = [
    await start({}),
    await start(logValues(port, credentials, "log.test/one")),
    await start(logValues(port, credentials, "log.test/two")),
  ];
  try {
    return await measured(servers, bucket);
  } finally {
    for (const each of servers) each.close();
    await keyServer.close();
    bucket.disconnect();
  }
}

const logValues = (port: number, credentials: string, origin: string): object => ({
  LOG_ORIGIN: origin,
  LOG_STORE: "mesh-log/",
  S3_ENDPOINT: `http://127.0.0.1:${port}`,
  S3_CREDENTIALS_FILE: credentials,
});

async function measured(servers: readonly Server[], bucket: ChildProcess): Promise<Row[]> {
  const [plain, one, two] = servers;
  if (!plain || !one || !two) return [];
  for (const each of servers) await each.waiting(warmUpTimes);
  const ratios: number[] = [];
  const milliseconds: number[] = [];
  const putsBefore = await putsTo(bucket);
  for (let i = 0; i < rounds; i++) {
    const [without, withLog] = [await cpuOf(plain), await cpuOf(one)];
    ratios.push(withLog / without);
    const begun = performance.now();
    await Promise.all([one.waiting(timesPerRound / 2), two.waiting(timesPerRound / 2)]);
    milliseconds.push(performance.now() - begun);
  }
  const puts = (await putsTo(bucket)) - putsBefore;
  const times: number[] = [];
  for (let i = 0; i < aloneTimes; i++) {
    const begun = performance.now();
    await one.alone(1);
    times.push(performance.now() - begun);
  }
  return [
    {
      name: "CPU with a log in a bucket, 64 waiting",
      value: median(ratios),
      unit: "×",
      budget: 1.15,
    },
    {
      name: "1,500 certificates of two replicas, bucket of 20 ms",
      value: median(milliseconds),
      unit: "ms",
      budget: 1000,
    },
    { name: "lone caller, bucket of 20 ms, median", value: median(times), unit: "ms", budget: 35 },
    {
      name: "puts of a million certificates, 64 waiting",
      value: (puts / (2 * rounds * timesPerRound)) * 1e6,
      budget: 40_000,
    },
  ];
}

async function cpuOf({ process, waiting: load }: Server): Promise<number> {
  const before = process.cpu();
  await load(timesPerRound);
  return process.cpu() - before;
}

async function putsTo(bucket: ChildProcess): Promise<number> {
  bucket.send("puts");
  const [{ puts }] = await once(bucket, "message");
  return puts;
}
