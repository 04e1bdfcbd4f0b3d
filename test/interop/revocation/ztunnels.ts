import { createWriteStream } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type Child, run, runWell, startChild } from "../../testkit/programs/child-process.ts";
import { until } from "../../testkit/time/until.ts";
import { istiodName, type Mesh } from "../native-grpc/mesh.ts";
import { type Claim, type Outcome, shown } from "../outcome-table.ts";
import { type ServingCa, startServingCa } from "../serving-ca.ts";
import { MissingProgram, namedBy } from "../software.ts";

/** A ztunnel of one workload, in a network of its own: all of them listen on the same ports. */
export type Ztunnel = Awaited<ReturnType<typeof startZtunnel>>;

/** The network of all ztunnels, and the place of the CA in it. */
export type Network = Awaited<ReturnType<typeof makeNetwork>>;

/** Distinguishes the networks of suites on one machine. */
let id = (process.pid % 50) + 190;
const bridgeOf = (): string => `zt${id}`;
const ipOf = (index: number): string => `10.${id}.0.${index + 1}`;
const spaceOf = (name: string): string => `${bridgeOf()}-${name}`;

const ip = (...values: string[]): Promise<string> => runWell("ip", values);

/** @throws Error where this process may not make networks. */
export async function makeNetwork(names: readonly string[]) {
  const bridge = await makeBridge();
  const hostIp = ipOf(253);
  await ip("addr", "add", `${hostIp}/24`, "dev", bridge);
  await ip("link", "set", bridge, "up");
  for (const [index, name] of names.entries()) {
    const [space, outer, inner] = [spaceOf(name), `${bridge}o${index}`, `${bridge}i${index}`];
    await ip("netns", "add", space);
    await ip("link", "add", outer, "type", "veth", "peer", "name", inner);
    await ip("link", "set", outer, "master", bridge, "up");
    await ip("link", "set", inner, "netns", space);
    await ip("-n", space, "addr", "add", `${ipOf(index)}/24`, "dev", inner);
    await ip("-n", space, "link", "set", inner, "up");
    await ip("-n", space, "link", "set", "lo", "up");
  }
  return {
    hostIp,
    names,
    end: async () => {
      for (const name of names) await run("ip", ["netns", "del", spaceOf(name)]);
      await run("ip", ["link", "del", bridge]);
    },
  };
}

/** Another suite may have chosen the same number. */
async function makeBridge(): Promise<string> {
  for (let tries = 1; ; tries++) {
    try {
      await ip("link", "add", bridgeOf(), "type", "bridge");
      return bridgeOf();
    } catch (error) {
      if (tries === 10) throw error;
      id++;
    }
  }
}

interface ZtunnelOptions {
  readonly program: string;
  readonly folder: string;
  readonly ca: Pick<ServingCa, "address" | "rootFile"> & { readonly mesh: Pick<Mesh, "token"> };
  readonly network: Network;
  readonly crlFile?: string;
  readonly variables?: Readonly<Record<string, string>>;
}

const workloadPort = 8080;
const workloadProgram = `require("node:http").createServer((_, r) => r.end()).listen(${workloadPort})`;

export async function startZtunnel(options: ZtunnelOptions, name: string) {
  const { program, ca, network, crlFile, variables } = options;
  const folder = join(options.folder, `ztunnel-${name}`);
  await mkdir(folder);
  const token = join(folder, "token");
  await writeFile(token, await ca.mesh.token({ account: `foo/${name}` }));
  const workloads = join(folder, "workloads.json");
  await writeFile(workloads, JSON.stringify({ workloads: network.names.map(workloadOf) }));
  const environment = {
    XDS_ADDRESS: "",
    LOCAL_XDS_PATH: workloads,
    PROXY_MODE: "dedicated",
    PROXY_WORKLOAD_INFO: `foo/${name}/${name}`,
    UNSTABLE_ENABLE_SOCKS5: "true",
    ENABLE_ORIG_SRC: "false",
    CA_ADDRESS: `https://${network.hostIp}:${ca.address.split(":").at(-1)}`,
    ALT_CA_HOSTNAME: istiodName,
    CA_ROOT_CA: ca.rootFile,
    AUTH_TOKEN: token,
    SECRET_TTL: "60s",
    ...(crlFile !== undefined && { CRL_PATH: crlFile }),
    RUST_LOG: "info",
    ...variables,
  };
  const inSpace = ["netns", "exec", spaceOf(name)];
  const logFile = join(folder, "log");
  const workload = [process.execPath, "-e", workloadProgram];
  const children: Child[] = [[program], workload].map((command) =>
    startChild("ip", [...inSpace, ...command], { logFile, environment, folder }),
  );
  // It logs on its standard output.
  const log = createWriteStream(logFile, { flags: "a" });
  children[0]?.onLine((line) => void log.write(`${line}\n`));
  const curl = (...values: string[]) => run("ip", [...inSpace, "curl", "-s", "-m", "5", ...values]);
  await until(`ztunnel ${name}`, async () => {
    const { exitCode } = await curl("-f", "http://127.0.0.1:15021/healthz/ready");
    return exitCode === 0;
  });
  return {
    ip: ipOf(network.names.indexOf(name)),
    /** Sends a request through its SOCKS port to the workload at this address. @returns The status, or 0. */
    call: async (to: string): Promise<number> => {
      const proxy = ["--socks5", "127.0.0.1:15080", "-o", "/dev/null", "-w", "%{http_code}"];
      const { stdout } = await curl(...proxy, `http://${to}:${workloadPort}/`);
      return Number(stdout);
    },
    /** The serial number of its certificate in hexadecimal. */
    serialNumber: async (): Promise<string> => {
      const { stdout } = await curl("http://127.0.0.1:15000/config_dump");
      const [, serial = "0"] = /"serialNumber":\s*"(\d+)"/.exec(stdout) ?? [];
      const hex = BigInt(serial).toString(16);
      return hex.length % 2 === 0 ? hex : `0${hex}`;
    },
    end: async () => {
      await Promise.all(children.map((child) => child.end()));
    },
  };
}

function workloadOf(name: string, index: number): object {
  return {
    uid: `cluster1//v1/Pod/foo/${name}`,
    name,
    namespace: "foo",
    serviceAccount: name,
    trustDomain: "cluster.local",
    workloadIps: [ipOf(index)],
    protocol: "HBONE",
    node: "local",
    services: {},
  };
}

export interface ZtunnelMesh {
  readonly program: string;
  readonly folder: string;
  readonly ca: ServingCa;
  readonly network: Network;
  readonly variables: Readonly<Record<string, string>>;
}

/** What a mesh of ztunnels is: its pods, and the variables and signers of its CA. */
interface MeshOptions {
  readonly folder: string;
  readonly pods: readonly string[];
  readonly variables?: Readonly<Record<string, string>>;
  readonly signers?: readonly Readonly<Record<string, unknown>>[];
}

/** Plays with the ztunnel that a variable names, where one does and this process may make networks. */
export async function playZtunnel(
  variable: string,
  claim: Claim,
  { folder, pods, variables = {}, signers = [] }: MeshOptions,
  play: (mesh: ZtunnelMesh) => Promise<string>,
): Promise<Outcome> {
  const ztunnel = namedBy(variable);
  if ("notPlayed" in ztunnel) return { ...claim, result: "not played", detail: ztunnel.notPlayed };
  return shown(claim, async () => {
    await using ends = new AsyncDisposableStack();
    const network = await makeNetwork(pods).catch((error) => {
      throw new MissingProgram(String(error));
    });
    ends.defer(network.end);
    await mkdir(folder);
    const ca = await startServingCa(join(folder, "ca"), { host: "0.0.0.0", variables, signers });
    ends.defer(async () => void (await ca.end()));
    return play({ ...ztunnel, folder, ca, network, variables });
  });
}
