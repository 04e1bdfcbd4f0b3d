import { once } from "node:events";
import { type ClientHttp2Stream, connect } from "node:http2";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { setImmediate } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { longestMessageOctets, toFrame } from "../../../src/agent/xds/grpc.ts";
import { encode, request, response, types } from "../../testkit/agent/discovery-messages.ts";
import { openEnvoyStream, paths, startFakeIstiod } from "../../testkit/agent/discovery-peers.ts";
import {
  askForClusters,
  connectEnvoy,
  type RunningXdsProxy,
  runXdsProxy,
} from "../../testkit/agent/running-xds-proxy.ts";
import { startRelay } from "../../testkit/network/relay.ts";
import { eventually } from "../../testkit/time/eventually.ts";

/** Passes this much time, once something waits for exactly that long. */
async function passPause({ time }: RunningXdsProxy, seconds: number): Promise<void> {
  await eventually(() => expect(time.pauses()).toContain(1000 * seconds));
  time.pass(seconds);
}

/** A stream that reads nothing before it is told to: grpc-js would read ahead. */
function openBareStream(socket: string): ClientHttp2Stream {
  const session = connect("http://agent", { path: socket } as object);
  onTestFinished(() => session.destroy());
  return session.request({
    ":method": "POST",
    ":path": paths.incremental,
    "content-type": "application/grpc",
    te: "trailers",
  });
}

test("passes on 20,000 requests in order after istiod has not read for a while", async () => {
  const istiod = await startFakeIstiod();
  const running = await runXdsProxy(istiod);
  const envoy = openBareStream(running.socket);
  const acknowledgement = Buffer.from(
    encode.incrementalRequest({ typeUrl: types.cluster, responseNonce: "000000" }),
  );
  const requests = Array.from({ length: 20_000 }, (_, n) => {
    const octets = Buffer.from(acknowledgement);
    octets.write(String(n).padStart(6, "0"), octets.length - 6);
    return octets;
  });
  envoy.write(toFrame(request(types.cluster)));
  const stream = await istiod.streams.nth(1);
  await stream.requests.nth(1);
  stream.call.pause();
  envoy.write(Buffer.concat(requests.map(toFrame)));
  // The proxy takes all of them from Envoy, and responses flow meanwhile.
  const taken = async () => (await running.metrics()).includes("xds_proxy_requests 20001");
  await eventually(async () => expect(await taken()).toBe(true));
  stream.send(response(types.cluster));
  await once(envoy, "data");
  stream.call.resume();
  await stream.requests.nth(20_001);
  const got = Buffer.concat(stream.requests.all.slice(1));
  expect(got.equals(Buffer.concat(requests))).toBe(true);
});

test("takes from istiod only as much as Envoy reads", async () => {
  const istiod = await startFakeIstiod();
  const { socket, proxy } = await runXdsProxy(istiod);
  const envoy = openBareStream(socket);
  envoy.write(toFrame(request(types.cluster)));
  const stream = await istiod.streams.nth(1);
  const [count, push] = [8, response(types.cluster, 1 << 20)];
  for (let n = 0; n < count; n++) stream.send(push);
  const taken = (): number => proxy.report().types[0]?.pushes ?? 0;
  // Turns in which nothing comes follow only when the proxy reads no more.
  for (let seen = -1, calm = 0; calm < 2_000; seen = taken()) {
    await setImmediate();
    calm = taken() > 0 && taken() === seen ? calm + 1 : 0;
  }
  expect(taken()).toBeLessThan(count);
  envoy.resume();
  await eventually(() => expect(taken()).toBe(count));
});

test("ends a stream whose requests istiod leaves unread without end", async () => {
  const { envoy, stream } = await connectEnvoy();
  stream.call.pause();
  for (let n = 0; n < 3; n++) envoy.send(Buffer.alloc(30 << 20));
  expect(await envoy.status).toMatchObject({
    code: 8,
    details: "istiod leaves too many requests unread",
  });
});

test("ends a half-open connection to istiod after 40 seconds", async () => {
  const istiod = await startFakeIstiod();
  const relay = await startRelay(istiod.port);
  onTestFinished(relay.close);
  const running = await runXdsProxy({ ...istiod, address: `127.0.0.1:${relay.port}` });
  const envoy = askForClusters(running);
  await (await istiod.streams.nth(1)).requests.nth(1);
  // An istiod that is there answers, and the stream goes on.
  await passPause(running, 30);
  await eventually(() => expect(running.time.pauses()).toEqual([30_000]));
  relay.freeze();
  const begin = running.time.clock();
  await passPause(running, 30);
  await passPause(running, 10);
  expect(await envoy.status).toMatchObject({
    code: 14,
    details: "istiod answered no ping within 10 s",
  });
  expect(running.time.clock().getTime() - begin.getTime()).toBe(40_000);
  expect(await running.metrics()).toContain('istiod_connection_terminations{type="error"} 1');
});

/** Envoy's stream to an istiod that takes connections and never answers. */
async function askSilentIstiod() {
  const hello = Promise.withResolvers<Socket>();
  const silent = createServer((socket) => {
    socket.on("error", () => undefined).on("data", () => hello.resolve(socket));
  }).listen(0, "127.0.0.1");
  await once(silent, "listening");
  onTestFinished(() => void silent.close());
  const { root } = await startFakeIstiod();
  const address = `127.0.0.1:${(silent.address() as AddressInfo).port}`;
  const running = await runXdsProxy({ address, root });
  const envoy = askForClusters(running);
  return { address, running, envoy, connection: await hello.promise };
}

test("gives up a connection that does not open within five seconds", async () => {
  const { address, running, envoy } = await askSilentIstiod();
  await passPause(running, 5);
  expect(await envoy.status).toMatchObject({
    code: 14,
    details: expect.stringContaining(
      `istiod at ${address} cannot be reached: it did not finish the TLS handshake in time`,
    ),
  });
});

test("leaves no connection behind when Envoy goes while it opens", async () => {
  const { running, envoy, connection } = await askSilentIstiod();
  envoy.call.cancel();
  await once(connection, "close");
  expect(await running.log.until("xds-ended")).toMatchObject({ by: "envoy" });
});

test("keeps back a type that is not for Envoy, and nothing around it", async () => {
  const { envoy, stream, log } = await connectEnvoy();
  stream.send(response(types.cluster));
  stream.send(response(types.nameTable, 200_000));
  stream.send(response(types.workload));
  await envoy.responses.nth(2);
  expect(envoy.responses.all).toEqual(
    [response(types.cluster), response(types.workload)].map((each) => Buffer.from(each)),
  );
  expect(log.operations).toContainEqual(
    expect.objectContaining({ event: "xds-withheld", type: types.nameTable }),
  );
});

test("ends the stream at a message that is longer than the bound, and says so", async () => {
  const { envoy, stream, log } = await connectEnvoy();
  stream.send(Buffer.alloc(longestMessageOctets + 1));
  const details = expect.stringMatching(/^a message of istiod has \d+ octets, and the agent takes/);
  expect(await envoy.status).toMatchObject({ code: 8, details });
  expect(envoy.responses.all).toEqual([]);
  expect(await log.until("xds-ended")).toMatchObject({
    level: "warning",
    by: "agent",
    code: 8,
    detail: details,
  });
});

test("passes on octets of Envoy that are no protobuf, and keeps back those of istiod", async () => {
  const istiod = await startFakeIstiod();
  const { socket, log } = await runXdsProxy(istiod);
  const envoy = openEnvoyStream(socket, "incremental");
  const damaged = [
    Buffer.alloc(100, 0xff),
    Buffer.concat([request(types.cluster), Buffer.from([0x3a, 0x03, 0x12, 0x7f, 0x61])]),
  ];
  for (const each of damaged) envoy.send(each);
  const stream = await istiod.streams.nth(1);
  await stream.requests.nth(2);
  expect(stream.requests.all).toEqual(damaged);
  stream.send(Buffer.alloc(100, 0xff));
  stream.send(response(types.cluster));
  await envoy.responses.nth(1);
  expect(envoy.responses.all).toEqual([Buffer.from(response(types.cluster))]);
  expect(await log.until("xds-withheld")).toMatchObject({ type: "" });
});
