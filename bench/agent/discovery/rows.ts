import { fork } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { type ClientHttp2Stream, connect, createServer, type ServerHttp2Stream } from "node:http2";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { create, toBinary } from "@bufbuild/protobuf";
import { memoryMebibytes } from "../../../dev/package/deployed-program.ts";
import { longestMessageOctets, toFrame } from "../../../src/agent/xds/grpc.ts";
import { DeltaDiscoveryResponseSchema } from "../../../src/gen/envoy/service/discovery/v3/discovery_pb.ts";
import { lastingFolder } from "../../../test/testkit/temporary-folder.ts";
import { median } from "../../measurement/median.ts";
import { cpuMicroseconds } from "../../measurement/process-cpu.ts";
import type { Row } from "../../measurement/report.ts";

const mebibyte = 1 << 20;
const rounds = 21;
const mebibytesPerRound = 32;
/** In MiB: the longest message that the proxy takes, which it holds once, and many short ones, which it does not hold. */
const longestPush = longestMessageOctets / mebibyte;
const shortPushes = 200;

/** A stream of Envoy through a process under test. */
interface Route {
  readonly pid: number;
  readonly envoy: ClientHttp2Stream;
  readonly istiod: ServerHttp2Stream;
  readonly end: () => void;
}

/** The XDS proxy beside a bare pipe between the same kinds of connection, and its memory in a long push. */
export async function discoveryRows(): Promise<Row[]> {
  const folder = await lastingFolder();
  const istiod = createServer().on("session", (session) => session.on("error", () => undefined));
  istiod.listen(0, "127.0.0.1");
  await once(istiod, "listening");
  const address = `127.0.0.1:${(istiod.address() as AddressInfo).port}`;
  const open = (kind: string): Promise<Route> =>
    openRoute(kind, join(folder, kind), address, () => once(istiod, "stream"));
  const routes: Route[] = [];
  const route = async (kind: string): Promise<Route> => {
    const opened = await open(kind);
    routes.push(opened);
    return opened;
  };
  try {
    // A process that has passed on nothing yet has no memory to use again.
    const long = await memoryOf(await route("long"), pushOf(longestMessageOctets), 1);
    const short = await memoryOf(await route("short"), pushOf(mebibyte), shortPushes);
    const costs = await measure(await route("proxy"), await route("bare"));
    return [
      {
        name: "CPU of the XDS proxy for a MiB",
        value: median(costs.map(([own]) => own)),
        unit: "µs",
      },
      {
        name: `memory of a push of ${longestPush} MiB, the longest that passes, / its length`,
        value: long / longestPush,
        budget: 2,
      },
      { name: `memory of ${shortPushes} pushes of a MiB`, value: short, unit: "MiB", budget: 100 },
      {
        name: "XDS proxy / bare pipe, CPU for a MiB",
        value: median(costs.map(([own, floor]) => own / floor)),
        budget: 2,
      },
    ];
  } finally {
    for (const route of routes) route.end();
    istiod.close();
  }
}

async function openRoute(
  kind: string,
  socket: string,
  address: string,
  nextStream: () => Promise<unknown[]>,
): Promise<Route> {
  const child = fork(join(import.meta.dirname, "child.ts"), [kind, socket, address]);
  await once(child, "message");
  const arriving = nextStream();
  const session = connect("http://agent", {
    path: socket,
    settings: { initialWindowSize: mebibyte },
  } as object);
  const envoy = session.request({
    ":method": "POST",
    ":path": "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources",
    "content-type": "application/grpc",
  });
  for (const each of [session, envoy]) each.on("error", () => undefined);
  envoy.write(Buffer.alloc(5));
  const [stream] = (await arriving) as [ServerHttp2Stream];
  stream.respond({ ":status": 200, "content-type": "application/grpc" });
  // The end of the process under test cuts it.
  stream.on("error", () => undefined).resume();
  const end = (): void => {
    session.destroy();
    child.kill();
  };
  return { pid: child.pid ?? 0, envoy, istiod: stream, end };
}

/** CPU for a MiB in microseconds, of the proxy and of the bare pipe, for each round. */
async function measure(proxy: Route, bare: Route): Promise<(readonly [number, number])[]> {
  const push = pushOf(mebibyte);
  const cost = async (route: Route): Promise<number> => {
    const before = cpuMicroseconds(route.pid);
    for (let n = 0; n < mebibytesPerRound; n++) await send(route, push);
    return (cpuMicroseconds(route.pid) - before) / mebibytesPerRound;
  };
  for (const route of [proxy, bare, proxy, bare]) await cost(route);
  const costs: (readonly [number, number])[] = [];
  for (let round = 0; round < rounds; round++) costs.push([await cost(proxy), await cost(bare)]);
  return costs;
}

/** How much the peak of the process grows, in MiB, when Envoy does not read at first. */
async function memoryOf(route: Route, push: Buffer, times: number): Promise<number> {
  // Sets the peak to what the process has now.
  writeFileSync(`/proc/${route.pid}/clear_refs`, "5");
  const before = memoryMebibytes(route.pid, "VmRSS");
  route.envoy.pause();
  const sent = send(route, push, times);
  await sleep(1_000);
  route.envoy.resume();
  await sent;
  return memoryMebibytes(route.pid, "VmHWM") - before;
}

/** Sends pushes, and waits until Envoy has all of them. */
function send({ envoy, istiod }: Route, push: Buffer, times: number = 1): Promise<void> {
  return new Promise((resolve) => {
    let left = times * push.length;
    const take = (chunk: Buffer): void => {
      left -= chunk.length;
      if (left > 0) return;
      envoy.off("data", take);
      resolve();
    };
    envoy.on("data", take);
    for (let n = 0; n < times; n++) istiod.write(push);
  });
}

const typeUrl = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
const octetsOfCluster = 4_000;
/** More than the names, types and versions of a cluster have. */
const octetsBesideValue = 300;

/** A frame with clusters, whose message has at most this many octets. */
function pushOf(octets: number): Buffer {
  const value = Buffer.alloc(octetsOfCluster - octetsBesideValue, 7);
  const count = Math.floor(octets / octetsOfCluster) - 1;
  const resources = Array.from({ length: count }, (_, n) => ({
    name: `outbound|80||service-${n}.default.svc.cluster.local`,
    version: "2026-01-01T00:00:00Z/1",
    resource: { typeUrl, value },
  }));
  const response = create(DeltaDiscoveryResponseSchema, { typeUrl, nonce: "1", resources });
  return toFrame(toBinary(DeltaDiscoveryResponseSchema, response));
}
