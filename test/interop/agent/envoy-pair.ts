import { createServer, type RequestListener } from "node:http";
import { join } from "node:path";
import { createBootstrap } from "../../../src/agent/envoy/envoy-bootstrap.ts";
import { freePorts } from "../../testkit/network/free-ports.ts";
import { type LoopbackServer, listenOnLoopback } from "../../testkit/network/loopback.ts";
import { type Child, startChild } from "../../testkit/programs/child-process.ts";

/** Two Envoys with a workload behind the second: client → A → mutual TLS → B → workload. */
export type EnvoyPair = Awaited<ReturnType<typeof startEnvoyPair>>;

const local = (port: number) => ({ host: "127.0.0.1", port });
const spiffeId = (name: string, trustDomain = "cluster.local"): string =>
  `spiffe://${trustDomain}/ns/mesh/sa/${name}`;

/** The source of secrets for an Envoy of a pair. */
interface SecretsOfEnvoy {
  readonly socket: string;
  /** The name of its own certificate. */
  readonly resource?: string;
  /** The name of its roots. */
  readonly roots?: string;
  readonly trustDomain?: string;
}

interface EnvoyPairOptions {
  readonly envoy: string;
  readonly folder: string;
  /** Distinguishes the pairs on one machine. */
  readonly baseId: number;
  readonly a: SecretsOfEnvoy;
  readonly b: SecretsOfEnvoy;
  /** Changes the bootstrap of both, in JSON. */
  readonly rewrite?: (bootstrap: string) => string;
  /** Starts one of them in another way, such as under pilot-agent. */
  readonly start?: (name: "a" | "b", bootstrap: string) => Promise<Child>;
}

export async function startEnvoyPair(options: EnvoyPairOptions) {
  const { envoy, folder, baseId } = options;
  const workload = await startWorkload();
  const [kept = 0, fresh = 0, wrongServer = 0, wrongClient = 0, inbound = 0, strict = 0] =
    await freePorts(6);
  const [adminA = 0, adminB = 0] = await freePorts(2);
  const forward = local(workload.port);
  const only = (name: "a" | "b" | "c") => ({
    spiffeIds: [spiffeId(name, name === "c" ? undefined : options[name].trustDomain)],
  });
  const b = createBootstrap({
    nodeId: "b",
    nodeCluster: "b",
    sdsSocket: options.b.socket,
    admin: local(adminB),
    inbound: [
      { listen: local(inbound), forward, peers: only("a") },
      { listen: local(strict), forward, peers: only("c") },
    ],
    outbound: [],
  });
  const a = createBootstrap({
    nodeId: "a",
    nodeCluster: "a",
    sdsSocket: options.a.socket,
    admin: local(adminA),
    inbound: [],
    outbound: [
      { listen: local(kept), connect: local(inbound), peers: only("b") },
      { listen: local(fresh), connect: local(inbound), peers: only("b") },
      { listen: local(wrongServer), connect: local(inbound), peers: only("c") },
      { listen: local(wrongClient), connect: local(strict), peers: only("b") },
    ],
  });
  const start = async (name: "a" | "b", id: number, bootstrap: object): Promise<Child> => {
    const { rewrite = asItIs } = options;
    const yaml = rewrite(withSecretsOf(options[name], JSON.stringify(bootstrap)));
    if (options.start) return options.start(name, yaml);
    const values = ["--config-yaml", yaml, "--base-id", String(id), "--concurrency", "1"];
    return startChild(envoy, values, { logFile: join(folder, `envoy-${name}-${baseId}.log`) });
  };
  const children = await Promise.all([
    start("a", baseId, withOneRequestEach(a, "outbound-1")),
    start("b", baseId + 1, b),
  ]);
  const url = (port: number): string => `http://127.0.0.1:${port}/`;
  return {
    /** Its requests share connections. */
    keptUrl: url(kept),
    /** It has a handshake for each request. */
    freshUrl: url(fresh),
    /** Its cluster in A expects another identity than that of B. */
    wrongServerUrl: url(wrongServer),
    /** It leads to a listener of B which admits only another identity than that of A. */
    wrongClientUrl: url(wrongClient),
    /** On which B accepts mutual TLS from `a`. */
    inboundPort: inbound,
    async end() {
      await Promise.all(children.map((child) => child.end()));
      await workload.close();
    },
  };
}

const serves: RequestListener = (_request, response) => void response.end("served\n");

/** @param answer By default it serves everybody. */
export const startWorkload = (answer: RequestListener = serves): Promise<LoopbackServer> =>
  listenOnLoopback(createServer(answer));

const asItIs = (bootstrap: string): string => bootstrap;

/** The bootstrap with other resources. */
function withSecretsOf({ resource, roots }: SecretsOfEnvoy, json: string): string {
  const named = (from: string, to = from): [string, string] => [
    `{"name":"${from}",`,
    `{"name":${JSON.stringify(to)},`,
  ];
  return json.replaceAll(...named("default", resource)).replaceAll(...named("ROOTCA", roots));
}

/** The bootstrap with a cluster whose connections carry one request each. */
export function withOneRequestEach(bootstrap: object, name: string): object {
  const text = JSON.stringify(bootstrap, (_key, value) => {
    if (value?.name !== name || value.connect_timeout === undefined) return value;
    const [[options, settings]] = Object.entries(value.typed_extension_protocol_options) as [
      [string, object],
    ];
    const limited = {
      ...settings,
      common_http_protocol_options: { max_requests_per_connection: 1 },
    };
    return { ...value, typed_extension_protocol_options: { [options]: limited } };
  });
  return JSON.parse(text) as object;
}
