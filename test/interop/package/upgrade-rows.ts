import assert from "node:assert/strict";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type DevelopmentCluster, startDevelopmentCluster } from "../../../dev/cluster/cluster.ts";
import { createClient } from "../../../src/client/client.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { freePorts } from "../../testkit/network/free-ports.ts";
import { type Child, run, startChild } from "../../testkit/programs/child-process.ts";
import { until } from "../../testkit/time/until.ts";
import { type Installation, installArchive } from "./installation.ts";
import type { Row } from "./npm-rows.ts";

/** The archive of the release before, which is beside the checkout and in no registry. */
export const releaseBefore: string = join(
  import.meta.dirname,
  "../../../../shared/releases/rampart-ca-rampart-0.2.0.tgz",
);
const cart = { namespace: "shop", serviceAccount: "cart" };
const spiffeId = "spiffe://cluster.local/ns/shop/sa/cart";
const readers = "r".repeat(40);

/** A CA with a log, a tenant and an agent, whose programs change while the files stay. */
class Deployment {
  readonly #folder: string;
  readonly #environment: NodeJS.ProcessEnv;
  readonly #cluster: DevelopmentCluster;
  readonly #ports: readonly number[];
  readonly #running = new Map<"serve" | "agent", Child>();

  private constructor(
    folder: string,
    environment: NodeJS.ProcessEnv,
    cluster: DevelopmentCluster,
    ports: readonly number[],
  ) {
    this.#folder = folder;
    this.#environment = environment;
    this.#cluster = cluster;
    this.#ports = ports;
  }

  static async create(folder: string): Promise<Deployment> {
    await mkdir(join(folder, "certs"), { recursive: true });
    const cluster = await startDevelopmentCluster({ port: 0, folder: join(folder, "cluster") });
    const ports = await freePorts(4);
    const [plaintext] = ports;
    const claims = { ...cart, audiences: ["istio-ca"], expirationSeconds: 3600 };
    await writeFile(join(folder, "token"), await cluster.mintToken(claims), { mode: 0o600 });
    await writeFile(join(folder, "rampart.toml"), configuration(folder, cluster.issuer, ports));
    const environment = {
      KEK: randomKek(),
      LOG_READERS: readers,
      RAMPART_LOG_TOKEN: readers,
      CA_ADDR: `http://127.0.0.1:${plaintext}`,
      POD_NAMESPACE: cart.namespace,
      SERVICE_ACCOUNT: cart.serviceAccount,
      RAMPART_TOKEN_FILE: join(folder, "token"),
      RAMPART_STATUS_ADDR: `127.0.0.1:${ports[3]}`,
      OUTPUT_CERTS: join(folder, "certs"),
      RAMPART_CACHE: join(folder, "cache"),
      // It renews every few seconds.
      SECRET_TTL: "60s",
      SECRET_GRACE_PERIOD_RATIO: "0.95",
    };
    return new Deployment(folder, environment, cluster, ports);
  }

  get #url(): string {
    return `http://127.0.0.1:${this.#ports[0]}`;
  }

  /** Ends the program that runs, if one does, and starts the installed one on the same files. */
  async start(what: "serve" | "agent", program: string): Promise<void> {
    assert.equal((await this.#running.get(what)?.end("SIGTERM")) ?? 0, 0, `${what} ended badly`);
    const words = what === "serve" ? ["serve", "-c", "rampart.toml"] : ["agent", "run"];
    const options = { folder: this.#folder, environment: this.#environment };
    const child = startChild(program, words, options);
    this.#running.set(what, child);
    const [path, port] = what === "serve" ? ["readyz", 2] : ["healthz/ready", 3];
    await until(`${what} of ${program} is ready`, async () => {
      const url = `http://127.0.0.1:${this.#ports[port]}/${path}`;
      return (await fetch(url).catch(() => undefined))?.status === 200;
    });
  }

  /** Types words for an installed `rampart`. @throws AssertionError unless it ends well. */
  async type(program: string, ...words: readonly string[]): Promise<string> {
    const options = { folder: this.#folder, environment: this.#environment };
    const { exitCode, stdout, stderr } = await run(program, words, options);
    assert.equal(exitCode, 0, `${words.join(" ")}: ${stderr}`);
    return stdout;
  }

  /** Waits until the agent has renewed. @returns The root of its new chain. */
  async renewal(): Promise<string> {
    const path = join(this.#folder, "certs/cert-chain.pem");
    const now = await readFile(path, "utf8").catch(() => "");
    await until("the agent renews", async () => (await readFile(path, "utf8")) !== now);
    return await readFile(join(this.#folder, "certs/root-cert.pem"), "utf8");
  }

  /** What a tenant gets that the operator has denied. */
  async denied(): Promise<string> {
    const claims = { namespace: "shop", serviceAccount: "thief", audiences: ["istio-ca"] };
    const token = await this.#cluster.mintToken({ ...claims, expirationSeconds: 600 });
    const client = createClient({
      url: this.#url,
      token: () => token,
      trustDomain: "cluster.local",
    });
    const answer = await client.issue().catch((error: unknown) => error);
    return answer instanceof Error ? answer.message : "a certificate";
  }

  /** Reads the whole log, and compares it with the copy from before. */
  async checkLog(program: string): Promise<string> {
    const url = `${this.#url}/log/0`;
    return await this.type(program, "log", "check", "--url", url, "--dir", "copy");
  }

  async end(): Promise<void> {
    for (const child of this.#running.values()) await child.end("SIGTERM");
    await this.#cluster.close();
  }
}

const configuration = (folder: string, issuer: string, ports: readonly number[]): string => `\
STORE_DIRECTORY = "${join(folder, "store")}"
INCEPTION_DATE = ${new Date().toISOString().slice(0, 10)}
PROPAGATION_INTERVAL = "1s"
LOG_ORIGIN = "log.example.com/test"
LOG_INCEPTION_DATE = "${new Date().toISOString().slice(0, 10)}"
LOG_INTERVAL = "1s"
LISTEN = "127.0.0.1:${ports[1]}"
PLAINTEXT_LISTEN = "127.0.0.1:${ports[0]}"
MONITORING_LISTEN = "127.0.0.1:${ports[2]}"

[[ISSUERS]]
issuer = "${issuer}"
`;

/** An upgrade from the release before, and the way back, while workloads renew. */
export function upgradeRows(installation: Installation, folder: string): readonly Row[] {
  const { program: newer } = installation;
  let older = "";
  let deployment: Deployment | undefined;
  const running = (): Deployment => deployment ?? assert.fail("nothing runs");
  let roots = "";
  return [
    [
      "the release before serves, logs, denies, and feeds its agent",
      async () => {
        older = await installArchive(releaseBefore, join(folder, "before"));
        deployment = await Deployment.create(join(folder, "deployment"));
        await deployment.start("serve", older);
        await deployment.start("agent", older);
        const thief = spiffeId.replace("cart", "thief");
        await deployment.type(older, "deny", "add", thief, "--yes");
        await until("the denial counts", async () =>
          /denied|failed/i.test(await running().denied()),
        );
        roots = await deployment.renewal();
        await deployment.checkLog(older);
      },
    ],
    [
      "this one goes on with its store, log and denials, under its agent",
      async () => {
        await running().start("serve", newer);
        assert.equal(await running().renewal(), roots);
        assert.doesNotMatch(await running().denied(), /a certificate/);
        await running().checkLog(newer);
        await running().start("agent", newer);
        assert.equal(await running().renewal(), roots);
      },
    ],
    [
      "the release before goes on with what this one has written",
      async () => {
        await running().type(newer, "authority", "rotate", "--yes");
        await until("both roots are out", async () => {
          return (await running().renewal()).split("BEGIN CERTIFICATE").length === 3;
        });
        roots = await running().renewal();
        await running().checkLog(newer);
        await running().start("serve", older);
        assert.equal(await running().renewal(), roots);
        assert.doesNotMatch(await running().denied(), /a certificate/);
        await running().checkLog(older);
        await running().checkLog(newer);
        await running().start("agent", older);
        assert.equal(await running().renewal(), roots);
        await running().end();
      },
    ],
  ];
}
