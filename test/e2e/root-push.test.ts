import { afterAll, beforeAll, expect, test } from "vitest";
import { randomKek } from "../testkit/configuration.ts";
import {
  namespaceOf,
  startWatchedApi,
  type WatchedApi,
  watchedToken,
} from "../testkit/kubernetes/watched-api.ts";
import { createEdgeWorker } from "../testkit/programs/edge-worker.ts";
import { eventually } from "../testkit/time/eventually.ts";

const credential = "CLUSTER_CREDENTIAL_A";
const apis: readonly WatchedApi[] = await Promise.all(Array.from({ length: 4 }, startWatchedApi));
const [eager, unasked, broken, silent] = apis as [WatchedApi, WatchedApi, WatchedApi, WatchedApi];

const table = (name: string, server: string, more: object): object => ({
  issuer: `https://${name}.test`,
  cluster: name,
  kubernetes: { server, credential, ...more },
});

// The real workerd, over sockets of the loopback address.
const harness = await createEdgeWorker({
  vars: {
    ISSUERS: [
      table("broken", broken.origin, { deliver_roots: true }),
      table("away", "http://127.0.0.1:9", { deliver_roots: true }),
      table("silent", silent.origin, { deliver_roots: true }),
      table("eager", eager.origin, { deliver_roots: true }),
      table("unasked", unasked.origin, {}),
    ] as never,
    INCEPTION_DATE: new Date().toISOString().slice(0, 10),
    PROPAGATION_INTERVAL: "0s",
    KEK: randomKek("e2e"),
    [credential]: watchedToken,
  },
});

const names = Array.from({ length: 9 }, (_, i) => `shop-${i}`);

beforeAll(async () => {
  for (const api of apis) for (const name of names) api.put(namespaceOf(name));
  broken.instead = (_, response) => Boolean(response.writeHead(200).end("<html>"));
  silent.instead = (_, response) => Boolean(response.writeHead(503).end());
  await harness.listen();
});

afterAll(async () => {
  await harness.close();
  await Promise.all(apis.map((api) => api.close()));
});

const runCron = () => harness.getWorker().scheduled({ cron: "* * * * *" });
const heldBy = (api: WatchedApi): unknown[] =>
  names.map((name) => Object(api.configMapIn(name)?.data)["root-cert.pem"]);
const publishedPem = async (): Promise<string> => (await harness.fetch("/bundle.pem")).text();

/** Runs the cron until these have the roots in every namespace. A slow machine may need several runs. */
async function runUntil(...all: readonly WatchedApi[]): Promise<void> {
  await eventually(async () => {
    expect(await runCron()).toMatchObject({ outcome: "ok" });
    const pem = await publishedPem();
    for (const api of all) expect(heldBy(api)).toEqual(names.map(() => pem));
  });
}

test("the Worker's cron delivers its roots to the clusters that want them, whatever other clusters do", async () => {
  expect(await runCron()).toMatchObject({ outcome: "ok" });
  silent.instead = () => true;
  await runUntil(eager);
  expect(await publishedPem()).toContain("BEGIN CERTIFICATE");
  expect(eager.configMapIn("shop-0")).toMatchObject({
    metadata: {
      labels: { "istio.io/config": "true" },
      managedFields: [{ manager: "rampart-ca", operation: "Apply" }],
    },
  });
  expect(unasked.asked).toEqual([]);
  for (const api of [broken, silent]) {
    expect(api.asked).not.toEqual([]);
    expect(api.asked.filter((each) => !each.startsWith("GET"))).toEqual([]);
  }
});
