import { expect, test } from "vitest";
import { encode, request, types } from "../../testkit/agent/discovery-messages.ts";
import { openEnvoyStream, startFakeIstiod } from "../../testkit/agent/discovery-peers.ts";
import { runXdsProxy } from "../../testkit/agent/running-xds-proxy.ts";

const octets = (message: Uint8Array): Buffer => Buffer.from(message);
const healthy = octets(encode.incrementalRequest({ typeUrl: types.health }));
const fault = "port 8080 is closed";
const errorDetail = { code: 13, message: fault };
const unhealthy = octets(encode.incrementalRequest({ typeUrl: types.health, errorDetail }));

test("reports health after the first request for listeners, and then each change", async () => {
  const istiod = await startFakeIstiod();
  const { socket, proxy } = await runXdsProxy(istiod);
  proxy.reportHealth({ fault });
  const envoy = openEnvoyStream(socket, "incremental");
  envoy.send(request(types.cluster));
  const { requests } = await istiod.streams.nth(1);
  await requests.nth(1);
  proxy.reportHealth({ fault: undefined });
  envoy.send(request(types.listener));
  envoy.send(request(types.listener));
  await requests.nth(4);
  proxy.reportHealth({ fault });
  await requests.nth(5);
  expect(requests.all).toEqual([
    octets(request(types.cluster)),
    octets(request(types.listener)),
    healthy,
    octets(request(types.listener)),
    unhealthy,
  ]);
});

test("reports nothing while the health is unknown", async () => {
  const istiod = await startFakeIstiod();
  const { socket } = await runXdsProxy(istiod);
  const envoy = openEnvoyStream(socket, "incremental");
  envoy.send(request(types.listener));
  envoy.send(request(types.cluster));
  const { requests } = await istiod.streams.nth(1);
  expect(await requests.nth(2)).toEqual(octets(request(types.cluster)));
});

test("reports the last state to the next istiod, in its protocol", async () => {
  const istiod = await startFakeIstiod();
  const { socket, proxy } = await runXdsProxy(istiod);
  const first = openEnvoyStream(socket, "incremental");
  first.send(request(types.listener));
  await (await istiod.streams.nth(1)).requests.nth(1);
  first.call.cancel();
  await (await istiod.streams.nth(1)).isOver;
  proxy.reportHealth({ fault });
  const second = openEnvoyStream(socket, "state-of-the-world");
  second.send(encode.fullRequest({ typeUrl: types.listener }));
  const { requests } = await istiod.streams.nth(2);
  expect(await requests.nth(2)).toEqual(
    octets(encode.fullRequest({ typeUrl: types.health, errorDetail })),
  );
});
