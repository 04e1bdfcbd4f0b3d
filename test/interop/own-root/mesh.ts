import { X509Certificate } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { stringify } from "smol-toml";
import { type DevelopmentCluster, startDevelopmentCluster } from "../../../dev/cluster/cluster.ts";
import { pemsOf, SdsStream } from "../../testkit/agent/sds-client.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { freePorts } from "../../testkit/network/free-ports.ts";
import {
  launchServer,
  runRampart,
  type ServerProcess,
} from "../../testkit/programs/rampart-process.ts";
import { AgentProcess } from "../agent/processes/agent-process.ts";

/** A life half of which outlasts a busy moment, and that makes every phase of an authority short. */
export const leafSeconds = 15;

/** `rampart serve` under somebody else's root. */
export class MeshCa {
  readonly rootsFile: string;
  readonly #folder: string;
  readonly #environment: Readonly<Record<string, string>>;
  readonly #cluster: DevelopmentCluster;
  #process: ServerProcess | undefined;
  #refreshing: NodeJS.Timeout | undefined;

  private constructor(folder: string, cluster: DevelopmentCluster) {
    this.#folder = folder;
    this.#cluster = cluster;
    this.#environment = { KEK: randomKek() };
    this.rootsFile = join(folder, "roots.pem");
  }

  /** Starts it, with these keys beside the usual ones. */
  static async start(folder: string, own: object): Promise<MeshCa> {
    const cluster = await startDevelopmentCluster({ port: 0, folder: join(folder, "cluster") });
    const ca = new MeshCa(folder, cluster);
    const configuration = {
      STORE_DIRECTORY: join(folder, "store"),
      ISSUERS: [{ issuer: cluster.issuer }],
      PROPAGATION_INTERVAL: "1s",
      MAX_WORKLOAD_CERT_TTL: `${leafSeconds}s`,
      DEFAULT_WORKLOAD_CERT_TTL: `${leafSeconds}s`,
      LISTEN: "127.0.0.1:0",
      MONITORING_LISTEN: "127.0.0.1:0",
      ...own,
    };
    await writeFile(ca.#configurationFile, stringify(configuration));
    await ca.#start();
    return ca;
  }

  get #configurationFile(): string {
    return join(this.#folder, "rampart.toml");
  }

  async #start(): Promise<void> {
    this.#process = await launchServer("serve", this.#configurationFile, this.#environment);
    await this.#refreshRoots();
    // The file that `rampart distribute` keeps in a cluster.
    this.#refreshing = setInterval(() => void this.#refreshRoots().catch(() => {}), 1_000);
  }

  async #refreshRoots(): Promise<void> {
    await writeFile(this.rootsFile, await this.bundle());
  }

  get port(): number {
    return this.#process?.port ?? 0;
  }

  get lines(): readonly string[] {
    return this.#process?.lines ?? [];
  }

  async bundle(form: "pem" | "json" = "pem"): Promise<string> {
    return (await fetch(`http://${this.#process?.monitoringAddress}/bundle.${form}`)).text();
  }

  /** What an operator types: `rampart authority …`. */
  authority(...words: readonly string[]): Promise<string> {
    return this.type("authority", ...words);
  }

  /** What an operator types: `rampart …`. */
  type(...words: readonly string[]): Promise<string> {
    const environment = this.#environment;
    return runRampart([...words, "--config", this.#configurationFile], { environment });
  }

  /** Starts `rampart agent` for `mesh:<name>`. */
  async startAgent(name: string, trustDomain = "cluster.local"): Promise<Workload> {
    const tokenFile = join(this.#folder, `token-${name}`);
    const claims = { namespace: "mesh", serviceAccount: name, audiences: ["istio-ca"] };
    const expirationSeconds = 3600;
    await writeFile(tokenFile, await this.#cluster.mintToken({ ...claims, expirationSeconds }));
    const socket = join(this.#folder, `sds-${name}`);
    const [port = 0] = await freePorts(1);
    const environment = {
      // The certificate of the server names istiod's Service.
      CA_ADDR: this.#process?.address.replace("127.0.0.1", "localhost"),
      CA_ROOT_CA: this.rootsFile,
      RAMPART_BUNDLE_URL: `http://${this.#process?.monitoringAddress}/bundle.json`,
      SECRET_TTL: `${leafSeconds}s`,
      SECRET_GRACE_PERIOD_RATIO: "0.6",
      POD_NAMESPACE: "mesh",
      SERVICE_ACCOUNT: name,
      TRUST_DOMAIN: trustDomain,
      RAMPART_TOKEN_FILE: tokenFile,
      RAMPART_SDS_SOCKET: socket,
    };
    const agent = new AgentProcess(this.#folder, environment, port);
    agent.start();
    await agent.ready();
    return { agent, socket };
  }

  /** @returns The exit code. */
  async end(): Promise<number> {
    clearInterval(this.#refreshing);
    const ended = (await this.#process?.end()) ?? -1;
    await writeFile(join(this.#folder, "serve.log"), this.lines.join("\n"));
    await this.#cluster.close();
    return ended;
  }
}

/** An agent, and the socket of its Envoy. */
export interface Workload {
  readonly agent: AgentProcess;
  readonly socket: string;
}

/** The certificates that an Envoy has now: its leaf, then what is between that and a root. */
export async function chainOf({ socket }: Workload): Promise<readonly X509Certificate[]> {
  const stream = new SdsStream(socket);
  stream.subscribe("default");
  const [pem = ""] = (await stream.secrets()).flatMap(pemsOf);
  stream.end();
  return pem.split(/(?=-----BEGIN CERTIFICATE)/).map((each) => new X509Certificate(each));
}

/** The intermediate that has signed the leaf of an Envoy. */
export async function intermediateOf(workload: Workload): Promise<X509Certificate> {
  const [, intermediate] = await chainOf(workload);
  if (!intermediate) throw new Error("a chain without an intermediate");
  return intermediate;
}

export const certificateIn = async (file: string): Promise<X509Certificate> =>
  new X509Certificate(await readFile(file));
