import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { runGateway } from "../../../src/node/gateway/gateway.ts";
import { GatewayConfiguration } from "../../../src/node/gateway/gateway-configuration.ts";
import type { RunningServer } from "../../../src/node/server.ts";
import { Runtime } from "../../../src/program/runtime.ts";
import {
  namespaceOf,
  startWatchedApi,
  type WatchedApi,
  watchedToken,
} from "../../testkit/kubernetes/watched-api.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { eventually } from "../../testkit/time/eventually.ts";
import { serveForGateway } from "./gateway-stage.ts";

let api: WatchedApi;
let gateway: RunningServer<GatewayConfiguration> | undefined;
let pem: string;
let stage: Awaited<ReturnType<typeof serveForGateway>>;

beforeAll(async () => {
  stage = await serveForGateway();
  pem = await stage.served.bundle();
  await writeFile(join(stage.folder, "api-token"), watchedToken);
});

afterAll(() => stage.served.end());

beforeEach(async () => {
  api = await startWatchedApi();
  for (const name of ["default", "shop", "kube-public"]) api.put(namespaceOf(name));
});

afterEach(async () => {
  await gateway?.close(100);
  gateway = undefined;
  await api.close();
});

const configurationWith = (values: Record<string, unknown>) =>
  GatewayConfiguration.parse({
    ...stage.keys,
    KUBERNETES_SERVER: api.origin,
    KUBERNETES_TOKEN_FILE: join(stage.folder, "api-token"),
    ...values,
  });

/** Starts one, and waits until it could serve. */
async function start(values: Record<string, unknown>): Promise<void> {
  const configuration = configurationWith(values);
  gateway = await runGateway(configuration, {
    log: createEventRecorder(),
    clock: () => new Date(),
  });
  await gateway.address;
}

const monitored = (path: string): Promise<Response> =>
  fetch(`http://127.0.0.1:${gateway?.monitoringAddress.port}${path}`);
const readiness = async (): Promise<[number, unknown]> => {
  const response = await monitored("/readyz");
  return [response.status, await response.json()];
};
const outOfOrder: WatchedApi["instead"] = (_, response) =>
  Boolean(response.writeHead(500).end("{}"));

test("a gateway with DELIVER_ROOTS delivers the roots to every namespace, and reports it", async () => {
  await start({ DELIVER_ROOTS: true });
  for (const name of ["default", "shop"]) {
    await eventually(() =>
      expect(api.configMapIn(name)).toMatchObject({ data: { "root-cert.pem": pem } }),
    );
  }
  expect(api.configMapIn("kube-public")).toBeUndefined();
  await eventually(async () =>
    expect(await readiness()).toMatchObject([
      200,
      { ready: true, roots: { ready: true, delivered: 2, sequence: expect.any(Number) } },
    ]),
  );
  const metrics = await (await monitored("/metrics")).text();
  expect(metrics).toContain("rampart_distribute_ready 1");
  expect(metrics).toContain("rampart_distribute_namespaces_delivered 2");
});

test("a gateway without DELIVER_ROOTS sends no request to the API server", async () => {
  await start({});
  expect(await readiness()).toEqual([200, { ready: true, reasons: [], runtime: Runtime.faults() }]);
  expect(api.asked).toEqual([]);
  expect(await (await monitored("/metrics")).text()).not.toContain("rampart_distribute");
});

test.each<[string, () => void]>([
  ["answers errors", () => (api.instead = outOfOrder)],
  ["answers nothing", () => (api.instead = () => true)],
])("a gateway serves while the API server %s", async (_, prepare) => {
  prepare();
  await start({ DELIVER_ROOTS: true });
  expect(await readiness()).toMatchObject([
    200,
    { ready: true, reasons: [], roots: { ready: false, delivered: 0 } },
  ]);
});

test("a gateway with READY_WITH_ROOTS is ready once the roots are everywhere", async () => {
  api.instead = (request, response) =>
    request.method === "PATCH" && Boolean(response.writeHead(403).end("{}"));
  await start({ DELIVER_ROOTS: true, READY_WITH_ROOTS: true });
  await eventually(async () =>
    expect(await readiness()).toMatchObject([
      503,
      { ready: false, reasons: ["2 places do not have the bundle yet"] },
    ]),
  );
  api.instead = undefined;
  await eventually(async () => expect(await readiness()).toMatchObject([200, { ready: true }]));
});

describe("a gateway with READY_WITH_ROOTS", () => {
  const values = { DELIVER_ROOTS: true, READY_WITH_ROOTS: true };
  beforeEach(async () => {
    await start(values);
    await eventually(async () => expect(await readiness()).toMatchObject([200, { ready: true }]));
    // From now on, no list of the cluster ends.
    api.instead = (request) => request.method === "GET";
  });

  test("stays ready with another configuration while it lists the cluster again", async () => {
    await gateway?.reconfigure(configurationWith({ ...values, CLUSTER: "other" }));
    expect(await readiness()).toMatchObject([200, { ready: true, roots: { delivered: 2 } }]);
    await gateway?.reconfigure(configurationWith(values));
    expect(await readiness()).toMatchObject([200, { ready: true }]);
    // The watches of the former configurations have ended.
    await eventually(() => expect(api.watching()).toBe(0));
  });

  test("takes what another CA's roots have reached for nothing", async () => {
    await gateway?.reconfigure(configurationWith({ ...values, UPSTREAM: "https://localhost:9" }));
    expect(await readiness()).toMatchObject([503, { ready: false, roots: { delivered: 0 } }]);
  });

  test("is not ready before it knows that other ConfigMaps have the roots", async () => {
    await gateway?.reconfigure(configurationWith({ ...values, CONFIG_MAP: "other-roots" }));
    expect(await readiness()).toMatchObject([
      503,
      { ready: false, reasons: ["the cluster has not been listed yet"] },
    ]);
  });
});
