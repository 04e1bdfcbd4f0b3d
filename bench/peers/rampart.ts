import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { stringify } from "smol-toml";
import { deployedEnvironment } from "../../dev/package/deployed-environment.ts";
import { fastNodeFlags } from "../../dev/package/node-flags.ts";
import { freePorts } from "../../test/testkit/network/free-ports.ts";
import { startEdge } from "../edge/edge.ts";
import { loadsOf } from "../loads.ts";
import { istioCall } from "../node/http2-load.ts";
import { serveValues } from "../node/serve-values.ts";
import { connectTo } from "./connections.ts";
import type { Peer, RootKey } from "./peer.ts";
import { startPeerProcess } from "./peer-process.ts";
import type { Stage } from "./stage.ts";

const version = "this checkout";

/** The Worker in workerd, asked in two protocols. */
export async function startWorker({ cluster, keysUrl, workload }: Stage): Promise<Peer[]> {
  const edge = await startEdge({ issuers: [{ issuer: cluster.issuer, jwks_uri: keysUrl }] });
  await edge.send("/bench/first-authority", {}, "");
  const { connect, grpcWeb } = loadsOf(edge, workload);
  const common = {
    version,
    rootKey: "EC-P256",
    less: "TLS ends in front of it",
    cpu: edge.cpu,
  } as const;
  return [
    {
      ...common,
      name: "Rampart, the Worker in workerd",
      api: "Connect over HTTP/1.1",
      load: connect,
      end: edge.close,
    },
    {
      ...common,
      name: "Rampart, the Worker in workerd",
      api: "gRPC-Web over HTTP/1.1",
      load: grpcWeb,
      end: async () => {},
    },
  ];
}

const program = join(import.meta.dirname, "../../src/cli/main.ts");

/** `rampart serve` as its unit starts it. */
export async function startServe(
  { cluster, keysUrl, workload, folder: parent }: Stage,
  rootKey: RootKey,
  processes: number,
): Promise<Peer> {
  const [port = 0] = await freePorts(1);
  const folder = join(parent, `serve-${rootKey}-${processes}`);
  const config = join(folder, "rampart.toml");
  await mkdir(folder);
  const { PLAINTEXT_LISTEN: _, KEK, ...values } = serveValues(folder);
  const issuers = [{ issuer: cluster.issuer, jwks_uri: keysUrl }];
  const own = { LISTEN: `127.0.0.1:${port}`, AUTHORITY_KEY: rootKey, PROPAGATION_INTERVAL: "4s" };
  const dnsNames = { SERVING_NAMES: ["localhost"] };
  await writeFile(config, stringify({ ...values, ...own, ...dnsNames, ISSUERS: issuers }));
  const serve = [program, "serve", "--config", config, "--processes", `${processes}`];
  const server = startPeerProcess({
    program: process.execPath,
    values: [...fastNodeFlags, ...serve],
    folder,
    env: { ...deployedEnvironment, KEK: String(KEK) },
  });
  const call = istioCall(workload);
  return {
    name: `Rampart, \`serve\`${processes > 1 ? `, ${processes} processes` : ""}`,
    version,
    api: "native gRPC over TLS",
    rootKey,
    less: "",
    ...(await connectTo(server, port, () => call)),
  };
}
