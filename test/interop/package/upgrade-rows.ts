import assert from "node:assert/strict";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { startDevelopmentCluster } from "../../../dev/cluster/cluster.ts";
import { createClient } from "../../../src/client/client.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { freePorts } from "../../testkit/network/free-ports.ts";
import { type Child, runWell, startChild } from "../../testkit/programs/child-process.ts";
import { serveToml } from "../../testkit/programs/rampart-process.ts";
import { until } from "../../testkit/time/until.ts";
import type { Row } from "../outcome-table.ts";
import { type Installation, installArchive } from "./installation.ts";

/** The archive of the release before, which is beside the checkout and in no registry. */
export const releaseBefore: string = join(
  import.meta.dirname,
  "../../../../shared/releases/rampart-ca-rampart-0.2.0.tgz",
);
const readers = "r".repeat(40);

/** A CA with a log, a tenant and an agent, whose programs change while the files stay. */
async function deploy(folder: string) {
  await mkdir(join(folder, "certs"), { recursive: true });
  const cluster = await startDevelopmentCluster({ port: 0, folder: join(folder, "cluster") });
  const [plaintext = 0, listen = 0, monitoring = 0, status = 0] = await freePorts(4);
  const mint = (serviceAccount: string): Promise<string> => {
    const claims = { namespace: "shop", serviceAccount, audiences: ["istio-ca"] };
    return cluster.mintToken({ ...claims, expirationSeconds: 3600 });
  };
  await writeFile(join(folder, "token"), await mint("cart"), { mode: 0o600 });
  const day = new Date().toISOString().slice(0, 10);
  const values = {
    PROPAGATION_INTERVAL: "1s",
    LOG_ORIGIN: "log.example.com/test",
    LOG_INCEPTION_DATE: day,
    LOG_INTERVAL: "1s",
    LISTEN: `127.0.0.1:${listen}`,
    PLAINTEXT_LISTEN: `127.0.0.1:${plaintext}`,
    MONITORING_LISTEN: `127.0.0.1:${monitoring}`,
    ISSUERS: [{ issuer: cluster.issuer }],
  };
  await writeFile(join(folder, "rampart.toml"), serveToml(join(folder, "store"), values));
  const url = `http://127.0.0.1:${plaintext}`;
  const environment = {
    KEK: randomKek(),
    LOG_READERS: readers,
    RAMPART_LOG_TOKEN: readers,
    CA_ADDR: url,
    POD_NAMESPACE: "shop",
    SERVICE_ACCOUNT: "cart",
    RAMPART_TOKEN_FILE: join(folder, "token"),
    RAMPART_STATUS_ADDR: `127.0.0.1:${status}`,
    OUTPUT_CERTS: join(folder, "certs"),
    RAMPART_CACHE: join(folder, "cache"),
    // It renews every few seconds.
    SECRET_TTL: "60s",
    SECRET_GRACE_PERIOD_RATIO: "0.95",
  };
  const programs = {
    serve: { words: ["serve", "-c", "rampart.toml"], probe: `${monitoring}/readyz` },
    agent: { words: ["agent", "run"], probe: `${status}/healthz/ready` },
  };
  const running = new Map<keyof typeof programs, Child>();
  /** Types words for an installed `rampart`. @throws Error unless it ends well. */
  const type = (program: string, ...words: readonly string[]): Promise<string> =>
    runWell(program, words, { folder, environment });
  return {
    type,
    /** Ends the program that runs, if one does, and starts the installed one on the same files. */
    start: async (what: keyof typeof programs, program: string): Promise<void> => {
      assert.equal((await running.get(what)?.end("SIGTERM")) ?? 0, 0, `${what} ended badly`);
      const { words, probe } = programs[what];
      running.set(what, startChild(program, words, { folder, environment }));
      await until(`${what} of ${program} is ready`, async () => {
        return (await fetch(`http://127.0.0.1:${probe}`).catch(() => undefined))?.status === 200;
      });
    },
    /** Waits until the agent has renewed. @returns The root of its new chain. */
    renewal: async (): Promise<string> => {
      const path = join(folder, "certs/cert-chain.pem");
      const now = await readFile(path, "utf8").catch(() => "");
      await until("the agent renews", async () => (await readFile(path, "utf8")) !== now);
      return await readFile(join(folder, "certs/root-cert.pem"), "utf8");
    },
    /** What a tenant gets that the operator has denied. */
    denied: async (): Promise<string> => {
      const token = await mint("thief");
      const client = createClient({ url, token: () => token, trustDomain: "cluster.local" });
      const answer = await client.issue().catch((error: unknown) => error);
      return answer instanceof Error ? answer.message : "a certificate";
    },
    /** Reads the whole log, and compares it with the copy from before. */
    checkLog: (program: string): Promise<string> =>
      type(program, "log", "check", "--url", `${url}/log/0`, "--dir", "copy"),
    end: async (): Promise<void> => {
      for (const child of running.values()) await child.end("SIGTERM");
      await cluster.close();
    },
  };
}

type Deployment = Awaited<ReturnType<typeof deploy>>;

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
        deployment = await deploy(join(folder, "deployment"));
        await deployment.start("serve", older);
        await deployment.start("agent", older);
        const thief = "spiffe://cluster.local/ns/shop/sa/thief";
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
