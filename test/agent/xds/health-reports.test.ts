import { expect, test } from "vitest";
import { encode, request, types } from "../../testkit/agent/discovery-messages.ts";
import { openEnvoyStream, startFakeIstiod } from "../../testkit/agent/discovery-peers.ts";
import { connectEnvoy, runXdsProxy } from "../../testkit/agent/running-xds-proxy.ts";

const fault = "port 8080 is closed";
const errorDetail = { code: 13, message: fault };
const healthy = encode.incrementalRequest({ typeUrl: types.health });
const unhealthy = encode.incrementalRequest({ typeUrl: types.health, errorDetail });
const [clusters, listeners] = [request(types.cluster), request(types.listener)];

test("reports health after the first request for listeners, and then each change", async () => {
  const { proxy, envoy, stream } = await connectEnvoy();
  const { requests } = stream;
  proxy.reportHealth({ fault });
  proxy.reportHealth({ fault: undefined });
  envoy.send(listeners);
  envoy.send(listeners);
  await requests.nth(4);
  proxy.reportHealth({ fault });
  await requests.nth(5);
  const expected = [clusters, listeners, healthy, listeners, unhealthy];
  expect(requests.all).toEqual(expected.map((each) => Buffer.from(each)));
});

test("reports nothing while the health is unknown", async () => {
  const { envoy, stream } = await connectEnvoy();
  for (const each of [listeners, clusters]) envoy.send(each);
  expect(await stream.requests.nth(3)).toEqual(Buffer.from(clusters));
});

test("reports the last state to the next istiod, in its protocol", async () => {
  const istiod = await startFakeIstiod();
  const { socket, proxy } = await runXdsProxy(istiod);
  const first = openEnvoyStream(socket, "incremental");
  first.send(listeners);
  await (await istiod.streams.nth(1)).requests.nth(1);
  first.call.cancel();
  await (await istiod.streams.nth(1)).isOver;
  proxy.reportHealth({ fault });
  const second = openEnvoyStream(socket, "state-of-the-world");
  second.send(encode.fullRequest({ typeUrl: types.listener }));
  const { requests } = await istiod.streams.nth(2);
  expect(await requests.nth(2)).toEqual(
    Buffer.from(encode.fullRequest({ typeUrl: types.health, errorDetail })),
  );
});
