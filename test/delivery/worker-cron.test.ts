import { afterAll, expect, test } from "vitest";
import { randomKek } from "../testkit/configuration.ts";
import { namespaceOf, startWatchedApi, watchedToken } from "../testkit/kubernetes/watched-api.ts";
import { createEdgeWorker } from "../testkit/programs/edge-worker.ts";
import { eventually } from "../testkit/time/eventually.ts";

const credential = "CLUSTER_CREDENTIAL_A";
const [eager, unasked, broken] = await Promise.all([
  startWatchedApi(),
  startWatchedApi(),
  startWatchedApi(),
]);
const table = (name: string, server: string, deliver_roots: boolean): object => ({
  issuer: `https://${name}.test`,
  cluster: name,
  kubernetes: { server, credential, deliver_roots },
});

// The real workerd, over sockets of the loopback address.
const harness = await createEdgeWorker({
  vars: {
    ISSUERS: [
      table("broken", broken.origin, true),
      table("away", "http://127.0.0.1:9", true),
      table("eager", eager.origin, true),
      table("unasked", unasked.origin, false),
    ] as never,
    INCEPTION_DATE: new Date().toISOString().slice(0, 10),
    PROPAGATION_INTERVAL: "0s",
    KEK: randomKek(),
    [credential]: watchedToken,
  },
});
afterAll(async () => {
  await harness.close();
  await Promise.all([eager, unasked, broken].map((api) => api.close()));
});

test("the Worker's cron delivers its roots to the clusters that want them, whatever other clusters do", async () => {
  const names = ["shop-1", "shop-2"];
  for (const name of names) eager.put(namespaceOf(name));
  broken.instead = (_, response) => Boolean(response.writeHead(200).end("<html>"));
  await harness.listen();
  // A slow machine may need several runs.
  await eventually(async () => {
    expect(await harness.getWorker().scheduled({ cron: "* * * * *" })).toMatchObject({
      outcome: "ok",
    });
    const pem = await (await harness.fetch("/bundle.pem")).text();
    expect(pem).toContain("BEGIN CERTIFICATE");
    for (const name of names)
      expect(eager.configMapIn(name)?.data).toEqual({ "root-cert.pem": pem });
  });
  expect(unasked.asked).toEqual([]);
  expect(broken.asked).not.toEqual([]);
});
