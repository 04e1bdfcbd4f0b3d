import { once } from "node:events";
import { rm, writeFile } from "node:fs/promises";
import { connect } from "node:http2";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { encode, response, types } from "../../testkit/agent/discovery-messages.ts";
import { openEnvoyStream, paths, startFakeIstiod } from "../../testkit/agent/discovery-peers.ts";
import {
  askForClusters,
  connectEnvoy,
  runXdsProxy,
} from "../../testkit/agent/running-xds-proxy.ts";
import { createTlsIdentity } from "../../testkit/network/tls-identity.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

test.each(["incremental", "state-of-the-world"] as const)(
  "passes requests and responses on, %s",
  async (protocol) => {
    const istiod = await startFakeIstiod();
    const { socket } = await runXdsProxy(istiod);
    const envoy = openEnvoyStream(socket, protocol);
    const isFull = protocol === "state-of-the-world";
    const init = { typeUrl: types.cluster, node: { id: "node" } };
    const asked = isFull ? encode.fullRequest(init) : encode.incrementalRequest(init);
    envoy.send(asked);
    const stream = await istiod.streams.nth(1);
    expect(stream.path).toBe(paths[protocol]);
    expect(await stream.requests.nth(1)).toEqual(Buffer.from(asked));
    const any = { typeUrl: types.cluster, value: Buffer.from("anything") };
    const answer = isFull
      ? encode.fullResponse({ typeUrl: types.cluster, resources: [any], nonce: "1" })
      : encode.incrementalResponse({ typeUrl: types.cluster, resources: [{ resource: any }] });
    stream.send(answer);
    expect(await envoy.responses.nth(1)).toEqual(Buffer.from(answer));
  },
);

test("shows istiod the token, the cluster and the headers, and no token where there is none", async () => {
  const istiod = await startFakeIstiod();
  const shown = { clusterid: "c1", "x-team": "blue" };
  const proxy = await runXdsProxy(istiod, { headers: shown });
  askForClusters(proxy);
  const { metadata } = await istiod.streams.nth(1);
  expect(metadata).toMatchObject({ authorization: "Bearer first-token", ...shown });
  await rm(proxy.tokenFile);
  askForClusters(proxy);
  expect((await istiod.streams.nth(2)).metadata).not.toHaveProperty("authorization");
});

test("shows an istiod without TLS no token, because everybody between could use it", async () => {
  const istiod = await startFakeIstiod(0, "plaintext");
  askForClusters(await runXdsProxy(istiod, { isPlaintext: true }));
  const { metadata } = await istiod.streams.nth(1);
  expect(metadata).toMatchObject({ clusterid: "Kubernetes" });
  expect(metadata).not.toHaveProperty("authorization");
});

test("reads the token and the roots anew for each stream, on a connection of its own", async () => {
  const first = await startFakeIstiod();
  const proxy = await runXdsProxy(first);
  askForClusters(proxy);
  await first.streams.nth(1);
  first.stop();
  const second = await startFakeIstiod(first.port, await createTlsIdentity());
  await writeFile(proxy.tokenFile, "second-token");
  await writeFile(proxy.rootFile, second.root);
  askForClusters(proxy);
  expect((await second.streams.nth(1)).metadata).toMatchObject({
    authorization: "Bearer second-token",
  });
});

test("judges istiod by the preferred file of roots where it exists, and by the name of the settings", async () => {
  const istiod = await startFakeIstiod();
  const preferredRootFile = join(await temporaryFolder(), "root-cert.pem");
  const stranger = { ...istiod, root: (await createTlsIdentity()).ca };
  const proxy = await runXdsProxy(stranger, { preferredRootFile });
  expect(await askForClusters(proxy).status).toMatchObject({ code: 14 });
  await writeFile(preferredRootFile, istiod.root);
  askForClusters(proxy);
  await istiod.streams.nth(1);
  const serverName = "istiod.istio-system.svc";
  const files = { rootFile: preferredRootFile, clientCertificate: undefined, serverName };
  const named = await runXdsProxy(istiod, { files });
  const details = expect.stringContaining("ERR_TLS_CERT_ALTNAME_INVALID");
  expect(await askForClusters(named).status).toMatchObject({ code: 14, details });
});

test("hands the status of istiod to Envoy", async () => {
  const { envoy, stream, log } = await connectEnvoy();
  const details = "authorization failed: no identities matched 100 % ns/sa";
  stream.end({ code: 7, details });
  expect(await envoy.status).toMatchObject({ code: 7, details });
  expect(await log.until("xds-ended")).toMatchObject({ by: "istiod", code: 7, detail: details });
});

test("hands on everything that istiod sent before its end", async () => {
  const { envoy, stream } = await connectEnvoy();
  for (let n = 0; n < 50; n++) stream.send(response(types.cluster, 100_000, String(n)));
  stream.end();
  expect(await envoy.status).toMatchObject({ code: 0 });
  expect(envoy.responses.all).toHaveLength(50);
});

test("ends the stream when istiod goes, and the next one finds the next istiod", async () => {
  const { istiod, envoy, rootFile, socket } = await connectEnvoy();
  istiod.stop();
  expect((await envoy.status).code).not.toBe(0);
  const next = await startFakeIstiod(istiod.port);
  await writeFile(rootFile, next.root);
  const again = askForClusters({ socket });
  (await next.streams.nth(1)).send(response(types.cluster));
  await again.responses.nth(1);
  // No request of the first stream reaches the second istiod.
  expect(next.streams.all[0]?.requests.all).toHaveLength(1);
});

test("tells istiod when Envoy goes", async () => {
  const { envoy, stream, log } = await connectEnvoy();
  envoy.call.cancel();
  await stream.isOver;
  expect(await log.until("xds-ended")).toMatchObject({ by: "envoy", level: "info" });
});

test("lets a newer stream take the place of an older one", async () => {
  const { istiod, envoy: older, socket, proxy } = await connectEnvoy();
  const newer = openEnvoyStream(socket, "state-of-the-world");
  newer.send(encode.fullRequest({ typeUrl: types.cluster }));
  expect(await older.status).toMatchObject({ code: 0 });
  const stream = await istiod.streams.nth(2);
  stream.send(encode.fullResponse({ typeUrl: types.cluster }));
  await newer.responses.nth(1);
  expect(proxy.report()).toMatchObject({ isConnected: true, protocol: "state-of-the-world" });
  newer.send(encode.fullRequest({ typeUrl: types.listener }));
  await stream.requests.nth(2);
  proxy.reportHealth({ fault: undefined });
  const health = Buffer.from(encode.fullRequest({ typeUrl: types.health }));
  expect(await stream.requests.nth(3)).toEqual(health);
});

test("is not connected while a newer stream finds no istiod", async () => {
  const { envoy: older, socket, proxy, rootFile } = await connectEnvoy();
  expect(proxy.report().isConnected).toBe(true);
  await writeFile(rootFile, (await createTlsIdentity()).ca);
  askForClusters({ socket });
  await older.status;
  expect(proxy.report().isConnected).toBe(false);
});

test("tells Envoy why istiod cannot be reached", async () => {
  const istiod = await startFakeIstiod();
  const proxy = await runXdsProxy(istiod);
  const { rootFile } = proxy;
  await writeFile(rootFile, (await createTlsIdentity()).ca);
  expect(await askForClusters(proxy).status).toMatchObject({
    code: 14,
    details: `istiod at ${istiod.address} cannot be reached: DEPTH_ZERO_SELF_SIGNED_CERT`,
  });
  await rm(rootFile);
  const details = `${rootFile} does not exist`;
  expect(await askForClusters(proxy).status).toMatchObject({ code: 14, details });
  expect(await proxy.log.until("xds-not-connected", 2)).toMatchObject({ level: "warning" });
  expect(await proxy.metrics()).toContain("istio_agent_istiod_connection_failures 2");
});

test("refuses other methods, and what is no gRPC", async () => {
  const { socket } = await runXdsProxy(await startFakeIstiod());
  const path = "/envoy.service.secret.v3.SecretDiscoveryService/StreamSecrets";
  const envoy = openEnvoyStream(socket, "incremental", path);
  expect(await envoy.status).toMatchObject({ code: 12, details: "unknown service or method" });
  const session = connect("http://agent", { path: socket } as object);
  onTestFinished(() => session.destroy());
  const stream = session.request({ ":path": paths.incremental, "content-type": "text/plain" });
  const [head] = await once(stream, "response");
  expect(head[":status"]).toBe(415);
});
