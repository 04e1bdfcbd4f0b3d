import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Registry } from "prom-client";
import { afterAll, beforeAll, expect, test } from "vitest";
import { XdsStatus } from "../../../src/agent/xds/xds-status.ts";
import { encode, request, response, types } from "../../testkit/agent/discovery-messages.ts";
import { startFakeIstiod } from "../../testkit/agent/discovery-peers.ts";
import { type HttpCa, startHttpCa } from "../../testkit/agent/http-ca.ts";
import { runAgent } from "../../testkit/agent/running-agent.ts";
import { askForClusters, connectEnvoy } from "../../testkit/agent/running-xds-proxy.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

let ca: HttpCa;
beforeAll(async () => {
  ca = await startHttpCa();
});
afterAll(() => ca.close());

test("an agent with an address of istiod is the XDS proxy of its Envoy", async () => {
  const istiod = await startFakeIstiod();
  const folder = await temporaryFolder();
  const [socket, roots] = [join(folder, "XDS"), join(folder, "roots.pem")];
  await writeFile(roots, istiod.root);
  const { agent } = await runAgent(ca, {
    DISCOVERY_ADDRESS: istiod.address,
    XDS_ROOT_CA: roots,
    RAMPART_XDS_SOCKET: socket,
    PROXY_CONFIG: `readinessProbe: { exec: { command: ["true"] } }`,
  });
  const envoy = askForClusters({ socket });
  const stream = await istiod.streams.nth(1);
  expect(stream.metadata).toHaveProperty("authorization", expect.stringMatching(/^Bearer ey/));
  stream.send(response(types.cluster));
  await envoy.responses.nth(1);
  // The workload is healthy, which istiod may know once it has been asked for listeners.
  envoy.send(request(types.listener));
  const healthy = Buffer.from(encode.incrementalRequest({ typeUrl: types.health }));
  expect(await stream.requests.nth(3)).toEqual(healthy);
  const status = await (await fetch(`${agent.statusUrl}/status`)).json();
  expect(status.xds).toMatchObject({
    address: istiod.address,
    isConnected: true,
    protocol: "incremental",
    types: [{ typeUrl: types.cluster, pushes: 1 }],
  });
  const metrics = await (await fetch(`${agent.statusUrl}/metrics`)).text();
  expect(metrics).toContain("istio_agent_xds_proxy_requests 3");
  expect(metrics).toContain("istio_agent_xds_proxy_responses 1");
});

test("reports connections, pushes with their age, and what Envoy rejected", async () => {
  const { proxy, time, log, metrics, envoy, stream } = await connectEnvoy();
  const begin = time.clock().toISOString();
  const push = response(types.cluster, 1000);
  stream.send(push);
  await envoy.responses.nth(1);
  time.pass(7);
  const message = `no such filter ${"x".repeat(1000)}`;
  envoy.send(
    encode.incrementalRequest({
      typeUrl: types.cluster,
      responseNonce: "1",
      errorDetail: { code: 13, message },
    }),
  );
  await stream.requests.nth(2);
  expect(proxy.report()).toMatchObject({
    isConnected: true,
    connectedSince: begin,
    types: [
      {
        typeUrl: types.cluster,
        lastPushAt: begin,
        secondsAgo: 7,
        pushes: 1,
        octets: push.length,
        nacks: 1,
      },
    ],
    lastNack: { at: time.clock().toISOString(), typeUrl: types.cluster },
  });
  expect(proxy.report().lastNack?.detail).toBe(message.slice(0, 500));
  const type = `{type_url="${types.cluster}"}`;
  expect(await metrics()).toContain(`istio_agent_xds_last_push_age_seconds${type} 7`);
  expect(await metrics()).toContain(`istio_agent_xds_nacks${type} 1`);
  for (const name of ["xds_nacks", "xds_pushed_octets"]) {
    expect(await metrics()).toContain(`# TYPE istio_agent_${name} counter`);
  }
  envoy.call.cancel();
  expect(await log.until("xds-ended")).toMatchObject({ requests: 2, responses: 1, seconds: 7 });
  expect(proxy.report()).toMatchObject({ isConnected: false, lastEnd: { by: "envoy" } });
  expect(await metrics()).toContain('envoy_connection_terminations{type="cancelled"} 1');
});

test("counts each end once by who made it, and a hundred types, whatever Envoy and istiod name", async () => {
  const registry = new Registry();
  const status = new XdsStatus("istiod:15012", () => new Date(0), registry);
  for (let i = 0; i < 150; i++)
    status.response({ typeUrl: `${i}`, octets: 1, isForwarded: i % 2 === 0 });
  for (let i = 0; i < 150; i++) status.request({ typeUrl: `of Envoy ${i}`, rejection: "no" });
  expect(status.report().types).toHaveLength(100);
  status.connected("incremental");
  const end = (by: "istiod" | "envoy", code: number, wasConnected: boolean, isCurrent: boolean) =>
    status.ended({ by, status: { code, message: "" }, wasConnected }, isCurrent);
  end("istiod", 0, true, false);
  expect(status.report()).toMatchObject({ isConnected: true, lastEnd: undefined });
  end("envoy", 13, true, true);
  end("istiod", 14, false, true);
  expect(status.report()).toMatchObject({ isConnected: false, lastEnd: { detail: "status 14" } });
  const text = await registry.metrics();
  for (const line of [
    "istiod_connection_failures 1",
    'istiod_connection_terminations{type="cancelled"} 1',
    'envoy_connection_terminations{type="error"} 1',
  ])
    expect(text).toContain(line);
});
