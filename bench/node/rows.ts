import type { webcrypto } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createTlsIdentity } from "../../test/testkit/network/tls-identity.ts";
import { lastingFolder } from "../../test/testkit/temporary-folder.ts";
import type { Load } from "../loads.ts";
import { median } from "../measurement/median.ts";
import type { Row } from "../measurement/report.ts";
import type { Cluster, Workload } from "../workload.ts";
import { ghzRows } from "./ghz.ts";
import { http2Load, istioCall } from "./http2-load.ts";
import { type ProcessUnderTest, startProcess } from "./process-under-test.ts";
import { serveValues } from "./serve-values.ts";

const warmUpTimes = 2000;
const rounds = 21;
const timesPerRound = 150;

interface Measured {
  readonly load: Load;
  readonly cpu: () => number;
}

type Name = "webFloor" | "nodeFloor" | "echo" | "serve" | "relay" | "gateway";
type Quartet = [Load, Load, Load, Load];
type Costs = Readonly<Record<Name, number>>;

/** CPU of native gRPC, per call of `rampart serve` and of `rampart gateway`, beside the floors. */
export async function nodeRows(
  cluster: Cluster,
  workload: Workload,
  keysUrl: string,
): Promise<Row[]> {
  const folder = await lastingFolder();
  const [ca, gateway] = [startProcess(), startProcess()];
  try {
    const { port, plaintextPort } = await startCa(ca, cluster, workload, keysUrl, folder);
    const { ca: chainPem, key: keyPem } = await createTlsIdentity();
    const certificate = { chainPem, keyPem };
    const echo = await ca.tell({ act: "echo", certificate });
    const relay = await gateway.tell({ act: "relay", certificate, caPort: plaintextPort });
    const front = await startGateway(gateway, plaintextPort, workload.token, folder);
    const call = istioCall(workload);
    const loads = [port, echo.port, relay.port, front.port].map((p) => http2Load(p, () => call));
    const [serve, echoing, relaying, through] = loads.map(({ load }) => load) as Quartet;
    const floor =
      (of: "web" | "node"): Load =>
      async (times) => {
        await ca.tell({ act: "floor", of, times });
      };
    const costs = await measure({
      webFloor: { load: floor("web"), cpu: ca.cpu },
      nodeFloor: { load: floor("node"), cpu: ca.cpu },
      echo: { load: echoing, cpu: ca.cpu },
      serve: { load: serve, cpu: ca.cpu },
      relay: { load: relaying, cpu: gateway.cpu },
      gateway: { load: through, cpu: gateway.cpu },
    });
    for (const { close } of loads) close();
    const perSecond = [
      ...(await ghzRows("rampart serve", port, workload)),
      ...(await ghzRows("rampart gateway", front.port, workload)),
    ];
    return [
      ...costRows(costs),
      ...perSecond,
      { name: "peak memory of rampart serve", value: ca.peakMemory(), unit: "MiB", budget: 220 },
    ];
  } finally {
    ca.end();
    gateway.end();
  }
}

async function startCa(
  ca: ProcessUnderTest,
  { issuer, keySet }: Cluster,
  { token, csrPem }: Workload,
  keysUrl: string,
  folder: string,
) {
  const [tokenKey] = keySet.keys as [webcrypto.JsonWebKey];
  await ca.tell({ act: "prepare-floors", input: { token, csrPem, tokenKey } });
  const gateways = [{ account: "foo/httpbin", dns_names: ["gateway.test"] }];
  return ca.tell({
    act: "serve",
    values: {
      ...serveValues(folder),
      PROPAGATION_INTERVAL: "4s",
      ISSUERS: [{ issuer, jwks_uri: keysUrl, gateways }],
    },
  });
}

async function startGateway(
  gateway: ProcessUnderTest,
  caPort: number,
  token: string,
  folder: string,
) {
  const TOKEN_FILE = join(folder, "token");
  await writeFile(TOKEN_FILE, token);
  const listen = { LISTEN: "127.0.0.1:0", MONITORING_LISTEN: "127.0.0.1:0" };
  const values = { UPSTREAM: `http://127.0.0.1:${caPort}`, TOKEN_FILE, ...listen };
  return gateway.tell({ act: "gateway", values });
}

async function measure(measured: Readonly<Record<Name, Measured>>): Promise<Costs[]> {
  const entries = Object.entries(measured) as [Name, Measured][];
  for (const [, { load }] of entries) await load(warmUpTimes);
  const costs: Costs[] = [];
  for (let round = 0; round < rounds; round++) {
    const cost: Partial<Record<Name, number>> = {};
    for (const [name, { load, cpu }] of entries) {
      const before = cpu();
      await load(timesPerRound);
      cost[name] = (cpu() - before) / timesPerRound;
    }
    costs.push(cost as Costs);
  }
  return costs;
}

function costRows(costs: readonly Costs[]): Row[] {
  const typical = (number: (cpu: Costs) => number): number => median(costs.map(number));
  const names: Record<Name, string> = {
    webFloor: "Node's crypto floor, WebCrypto",
    nodeFloor: "Node's crypto floor, node:crypto",
    echo: "an http2 stream that echoes, over TLS",
    serve: "native gRPC, rampart serve",
    relay: "native gRPC, a bare relay",
    gateway: "native gRPC, rampart gateway (its own share)",
  };
  const ratio = (name: string, of: (cpu: Costs) => number, budget: number): Row => ({
    name,
    value: typical(of),
    budget,
  });
  const absolute = Object.entries(names).map(([name, text]) => ({
    name: `CPU of ${text}`,
    value: typical((cpu) => cpu[name as Name]),
    unit: "µs",
  }));
  return [
    ...absolute,
    ratio(
      "native gRPC / (node:crypto floor + echo)",
      (cpu) => cpu.serve / (cpu.nodeFloor + cpu.echo),
      2.5,
    ),
    // Beyond two bare exchanges the gateway logs, counts, limits, keeps deadlines, and checks certificates.
    ratio("rampart gateway (its own share) / bare relay", (cpu) => cpu.gateway / cpu.relay, 1.75),
    // The work that a gateway adds to the CA's own.
    ratio("rampart gateway (its own share) / rampart serve", (cpu) => cpu.gateway / cpu.serve, 1),
  ];
}
