import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { DistributeConfiguration, distribute } from "../../../src/node/distribute/distribute.ts";
import type { RunningProgram } from "../../../src/program/program.ts";
import { Runtime } from "../../../src/program/runtime.ts";
import { type RunningCa, startCa } from "../../testkit/ca/running-ca.ts";
import { taint } from "../../testkit/ca/tainted-ca.ts";
import {
  namespaceOf,
  startWatchedApi,
  type WatchedApi,
  watchedToken,
} from "../../testkit/kubernetes/watched-api.ts";
import { createEventRecorder, type EventRecorder } from "../../testkit/log/event-recorder.ts";
import { type LoopbackServer, startLoopbackServer } from "../../testkit/network/loopback-server.ts";
import { lastingFolder } from "../../testkit/temporary-folder.ts";
import { eventually } from "../../testkit/time/eventually.ts";

let api: WatchedApi;
let ca: RunningCa;
let caIsAway: boolean;
/** Whether the CA holds its answers until there is another bundle. */
let caHolds: boolean;
let upstream: LoopbackServer;
let folder: string;
let log: EventRecorder;
let running: RunningProgram<DistributeConfiguration> | undefined;

beforeEach(async () => {
  [api, ca] = await Promise.all([startWatchedApi(), startCa()]);
  await ca.found();
  caIsAway = false;
  caHolds = false;
  log = createEventRecorder();
  folder = await lastingFolder();
  await writeFile(join(folder, "token"), `${watchedToken}\n`);
});

afterEach(async () => {
  await running?.close(100);
  running = undefined;
  await api.close();
});

/** Starts `rampart distribute` with a CA over HTTP as its upstream. */
async function start(values: Record<string, unknown> = {}): Promise<void> {
  upstream = await startLoopbackServer(async ({ url, headers }, response) => {
    const answer = await ca.app.request(url ?? "/", { headers: headers as HeadersInit });
    const held = caHolds ? Object.fromEntries(answer.headers) : {};
    response.writeHead(caIsAway ? 503 : answer.status, held).end(await answer.text());
  });
  running = await distribute(configurationWith(values), { log, clock: () => new Date() });
}

function configurationWith(values: Record<string, unknown>): DistributeConfiguration {
  return DistributeConfiguration.parse(
    {
      UPSTREAM: upstream.origin,
      KUBERNETES_SERVER: api.origin,
      KUBERNETES_TOKEN_FILE: join(folder, "token"),
      MONITORING_LISTEN: "127.0.0.1:0",
      ...values,
    },
    {},
  );
}

const pem = async (): Promise<string> => (await ca.app.request("/bundle.pem")).text();

const monitored = (path: string): Promise<Response> =>
  fetch(`http://127.0.0.1:${running?.monitoringAddress.port}${path}`);

const readiness = async () => (await monitored("/readyz")).json();

const ready = (): Promise<unknown> =>
  eventually(async () => expect(await readiness()).toMatchObject({ ready: true }));

async function expectDelivered(namespace: string): Promise<void> {
  const wanted = { "root-cert.pem": await pem() };
  await eventually(() => expect(api.configMapIn(namespace)).toMatchObject({ data: wanted }));
}

describe("another configuration", () => {
  test("counts without a restart: the roots go where it says", async () => {
    api.put(namespaceOf("shop"));
    await start();
    await ready();
    await running?.reconfigure(configurationWith({ CONFIG_MAP: "mesh-roots" }));
    await ready();
    const wanted = { data: { "root-cert.pem": await pem() } };
    expect(api.configMapIn("shop", "mesh-roots")).toMatchObject(wanted);
    expect(api.configMapIn("shop")).toMatchObject(wanted);
  });

  test("with roots that cannot be read is refused, and the former one goes on", async () => {
    await start();
    await ready();
    await expect(
      running?.reconfigure(configurationWith({ UPSTREAM_CA_FILE: join(folder, "nowhere") })),
    ).rejects.toThrow("nowhere does not exist");
    api.put(namespaceOf("later"));
    await expectDelivered("later");
  });

  test("begins with the bundle that is known, so that an older one is refused", async () => {
    api.put(namespaceOf("shop"));
    await start();
    await ready();
    caIsAway = true;
    await running?.reconfigure(configurationWith({ CONFIG_MAP: "mesh-roots" }));
    await eventually(() => expect(api.configMapIn("shop", "mesh-roots")).toHaveProperty("data"));
  });
});

describe("the trust bundle is delivered", () => {
  test("to every namespace that Istio would fill, with Istio's label", async () => {
    const [filled, left] = [
      ["default", "shop"],
      ["kube-public", "leaving"],
    ];
    for (const name of [...filled, "kube-public"]) api.put(namespaceOf(name));
    api.put(namespaceOf("leaving", "Terminating"));
    await start();
    await ready();
    for (const name of filled) {
      expect(api.configMapIn(name)).toMatchObject({
        metadata: {
          labels: { "istio.io/config": "true" },
          annotations: {
            "rampart.dev/spiffe-sequence": expect.stringMatching(/^\d+$/),
            "rampart.dev/delivered-at": expect.stringMatching(/^\d{4}-.*Z$/),
          },
        },
        data: { "root-cert.pem": await pem() },
      });
    }
    for (const name of left) expect(api.configMapIn(name)).toBeUndefined();
  });

  test("as a ClusterTrustBundle for each signer name, where that is wanted instead", async () => {
    api.put(namespaceOf("default"));
    const CLUSTER_TRUST_BUNDLE = ["mesh.example.com/workload", "istio.io/istiod-ca"];
    await start({ CONFIG_MAPS: false, CLUSTER_TRUST_BUNDLE });
    await ready();
    const trustBundle = await pem();
    const byName = api
      .clusterTrustBundles()
      .toSorted((one, other) => (one.metadata.name < other.metadata.name ? -1 : 1));
    expect(byName).toMatchObject([
      {
        metadata: { name: "istio.io:istiod-ca:root-cert" },
        spec: { signerName: "istio.io/istiod-ca", trustBundle },
      },
      {
        metadata: { name: "mesh.example.com:workload:root-cert" },
        spec: { signerName: "mesh.example.com/workload", trustBundle },
      },
    ]);
    expect(api.asked.filter((each) => each.includes("/api/v1/"))).toEqual([]);
  });

  test.each([[[]], [["workload"]], [["kubernetes.io/kubelet-serving"]], ["istio.io/istiod-ca"]])(
    "is refused for the signer names %j",
    async (CLUSTER_TRUST_BUNDLE) => {
      await expect(start({ CLUSTER_TRUST_BUNDLE })).rejects.toThrow(/^CLUSTER_TRUST_BUNDLE/);
    },
  );
});

test("another bundle is delivered as soon as the CA publishes it", async () => {
  caHolds = true;
  api.put(namespaceOf("default"));
  await start();
  await expectDelivered("default");
  const before = await pem();
  // The CA holds the second answer.
  const asked = () => upstream.requests.filter((url) => url === "/bundle.json").length;
  await eventually(() => expect(asked()).toBeGreaterThan(1));
  await taint(ca, "immediately");
  ca.pass(1);
  expect(await pem()).not.toBe(before);
  await expectDelivered("default");
});

describe("nothing is delivered", () => {
  test.each<[string, () => void]>([
    ["while the CA is away", () => (caIsAway = true)],
    ["while the CA has no authority", () => ca.store.records.clear()],
  ])("%s", async (_, prepare) => {
    prepare();
    api.put(namespaceOf("default"));
    if (!caIsAway) ca = await startCa();
    await start();
    await log.until("bundle-not-fetched");
    expect(await readiness()).toMatchObject({
      ready: false,
      reasons: ["the CA has not answered yet", "the bundle endpoint answered with status 503"],
    });
    expect(api.configMapIn("default")).toBeUndefined();
  });
});

test("reports which bundle the cluster has, and since when", async () => {
  api.put(namespaceOf("default"));
  await start();
  await eventually(async () =>
    expect(await readiness()).toMatchObject({ since: expect.stringMatching(/^\d{4}-/) }),
  );
  const { spiffe_sequence } = await (await ca.app.request("/bundle.json")).json();
  expect(await readiness()).toEqual({
    ready: true,
    runtime: Runtime.faults(),
    sequence: spiffe_sequence,
    since: expect.stringMatching(/^\d{4}-/),
    delivered: 1,
    pending: [],
    reasons: [],
  });
  const metrics = await (await monitored("/metrics")).text();
  expect(metrics).toContain(`rampart_distribute_bundle_sequence ${spiffe_sequence}`);
  expect(metrics).toContain("rampart_distribute_namespaces_delivered 1");
});

test("leaves the cluster alone if it cannot listen on its port", async () => {
  const other = await startWatchedApi();
  for (const each of [api, other]) each.put(namespaceOf("shop"));
  api.endNoWatch();
  const taken = new URL(api.origin).host;
  await expect(start({ MONITORING_LISTEN: taken })).rejects.toThrow("EADDRINUSE");
  // Work that was left running has come as far by then.
  await start({ KUBERNETES_SERVER: other.origin });
  await ready();
  await eventually(() => expect(api.watching()).toBe(0));
  expect(api.asked.filter((each) => each.startsWith("PATCH"))).toEqual([]);
  await running?.close(100);
  running = undefined;
  await other.close();
});
