import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { TestHarness } from "wrangler";
import { withLog } from "../../../dev/worker/worker-configuration.ts";
import { bearer, callWithClient, grpcWeb } from "../../contract/rpc-calls.ts";
import { issuers, type ServiceUnderTest } from "../../contract/service-under-test.ts";
import { createTokenKey, jwksOf, type TokenKey } from "../../testkit/callers/tokens.ts";
import { createWorkload } from "../../testkit/callers/workload.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { createEdgeWorker } from "../../testkit/programs/edge-worker.ts";
import { until } from "../../testkit/time/until.ts";
import { origin } from "./written-log.ts";

/** The log of a Worker in workerd, as its Durable Object has published it to R2. */
export interface WorkerLog {
  readonly url: string;
  readonly token: string;
  readonly verifierKey: string;
  readonly size: number;
  readonly end: () => Promise<void>;
}

const callsAtOnce = 20;

/** Starts a Worker, has it issue certificates, and waits until its log has published them. */
export async function writeWorkerLog(certificates: number): Promise<WorkerLog> {
  const key = await createTokenKey("ES256", "k1");
  const today = new Date().toISOString().slice(0, 10);
  const token = randomBytes(24).toString("hex");
  const vars = {
    ISSUERS: [{ issuer: issuers.cluster, jwks: jwksOf(key) }],
    INCEPTION_DATE: today,
    PROPAGATION_INTERVAL: "0s",
    LOG_ORIGIN: origin,
    LOG_INCEPTION_DATE: today,
    LOG_INTERVAL: "1s",
  };
  const secrets = { KEK: randomKek(), LOG_READERS: token };
  const harness = await createEdgeWorker({ ...withLog, vars: { ...vars, ...secrets } });
  const { url } = await harness.listen();
  try {
    const written = await issueAndRead(harness, url, { key, token, certificates });
    return { ...written, token, end: () => harness.close() };
  } catch (error) {
    await harness.close();
    throw error;
  }
}

/** What a Worker has to issue. */
interface Work {
  readonly key: TokenKey;
  readonly token: string;
  readonly certificates: number;
}

async function issueAndRead(
  harness: TestHarness,
  url: URL,
  { key, token, certificates }: Work,
): Promise<Pick<WorkerLog, "url" | "verifierKey" | "size">> {
  await harness.getWorker().scheduled({ cron: "* * * * *" });
  const service = {
    send: (request: Request) =>
      fetch(new URL(new URL(request.url).pathname, url), {
        method: request.method,
        headers: request.headers,
        body: request.body,
        duplex: "half",
      } as RequestInit),
    key,
    now: () => new Date(),
    takeAudits: () => [],
  };
  const { csrPem: csr } = await createWorkload();
  let left = certificates;
  const caller = async (): Promise<void> => {
    while (left-- > 0) await issueOne(service, csr);
  };
  await Promise.all(Array.from({ length: callsAtOnce }, caller));
  const headers = { authorization: `Bearer ${token}` };
  const logs = (await (await fetch(new URL("/log/logs.json", url), { headers })).json()) as {
    readonly verifierKey: string;
  }[];
  // The authority is the first entry.
  const size = await publishedSize(new URL("/log/0/checkpoint", url), headers, certificates + 1);
  return { url: `${url.origin}/log/0/`, verifierKey: logs[0]?.verifierKey ?? "", size };
}

/** Asks again, as Istio's clients do, when the shard is too slow on a machine that is. */
async function issueOne(service: ServiceUnderTest, csr: string): Promise<void> {
  for (;;) {
    const outcome = await callWithClient(grpcWeb, service, { csr }, await bearer(service));
    if ("certChain" in outcome) return;
    if (outcome.code !== "Unavailable") throw new Error(outcome.message);
  }
}

/** Waits for the alarms of the Durable Object. An entry whose answer came too late may be there twice. */
async function publishedSize(
  url: URL,
  headers: Readonly<Record<string, string>>,
  least: number,
): Promise<number> {
  let size = -1;
  await until(`${least} entries are published, and no more for a while`, async () => {
    const before = size;
    await sleep(3000);
    const [, published = ""] = (await (await fetch(url, { headers })).text()).split("\n");
    size = Number(published);
    return size >= least && size === before;
  });
  return size;
}
