import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { stringify } from "smol-toml";
import { nodeFlags } from "../../dev/package/node-flags.ts";
import { deployedEnvironment } from "../deployed.ts";
import { startEdge } from "../edge/edge.ts";
import { loadsOf } from "../loads.ts";
import { serveValues } from "../node/serve-values.ts";
import { nativeCalls } from "./native-calls.ts";
import { cpuOfAll, type Peer } from "./peer.ts";
import { freePort, type Stage } from "./stage.ts";

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

/** `rampart serve` as its unit starts it. */
export async function startServe(
  { cluster, keysUrl, workload, folder }: Stage,
  rootKey: Peer["rootKey"],
  processes: number,
): Promise<Peer> {
  const port = await freePort();
  const place = join(folder, `serve-${rootKey}-${processes}`);
  const config = join(place, "rampart.toml");
  await mkdir(place);
  const { PLAINTEXT_LISTEN: _, KEK, ...values } = serveValues(place);
  const issuers = [{ issuer: cluster.issuer, jwks_uri: keysUrl }];
  const own = { LISTEN: `127.0.0.1:${port}`, AUTHORITY_KEY: rootKey, PROPAGATION_INTERVAL: "4s" };
  const dnsNames = { SERVING_NAMES: ["localhost"] };
  await writeFile(config, stringify({ ...values, ...own, ...dnsNames, ISSUERS: issuers }));
  const program = ["src/cli/main.ts", "serve", "--config", config, "--processes", `${processes}`];
  const child = spawn(process.execPath, [...nodeFlags, ...program], {
    env: { ...process.env, ...deployedEnvironment, KEK: String(KEK) },
    stdio: ["ignore", "ignore", "inherit"],
  });
  process.once("exit", () => child.kill("SIGKILL"));
  const pid = child.pid ?? 0;
  const { load, close } = await nativeCalls(port, workload);
  return {
    name: `Rampart, \`serve\`${processes > 1 ? `, ${processes} processes` : ""}`,
    version,
    api: "native gRPC over TLS",
    rootKey,
    less: "",
    load,
    cpu: () => cpuOfAll(pid),
    end: async () => {
      close();
      const ended = once(child, "exit");
      child.kill("SIGTERM");
      await ended;
    },
  };
}
