import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { createPrivateKey } from "node:crypto";
import { once } from "node:events";
import { chown, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { startDevelopmentCluster } from "../../../dev/cluster/cluster.ts";
import { certificateReport } from "../../../dev/workload/certificate-report.ts";
import { type Client, createClient } from "../../../src/client/client.ts";
import { randomKek } from "../../testkit/configuration.ts";

/** How an installed `rampart` is started: the words before `serve`, and the whole environment. */
export interface Start {
  readonly command: readonly [string, ...string[]];
  readonly environment: Readonly<Record<string, string>>;
  /** The user and group that it runs as, instead of the test's. */
  readonly user?: number | undefined;
}

const spiffeId = "spiffe://cluster.local/ns/shop/sa/cart";

/** Starts `rampart serve` with files in a folder, gets a certificate from it, and ends it. */
export async function serveAndIssue(folder: string, start: Start): Promise<void> {
  await mkdir(folder, { recursive: true });
  if (start.user !== undefined) await chown(folder, start.user, start.user);
  const cluster = await startDevelopmentCluster({ port: 0, folder: join(folder, "cluster") });
  const config = join(folder, "rampart.toml");
  await writeFile(config, configurationFor(cluster.issuer, join(folder, "store")));
  const child = startServing(start, ["--config", config], folder);
  const ended = once(child, "exit");
  try {
    const port = await plaintextPort(child, ended);
    const claims = { namespace: "shop", serviceAccount: "cart", audiences: ["istio-ca"] };
    const token = await cluster.mintToken({ ...claims, expirationSeconds: 3600 });
    const url = `http://127.0.0.1:${port}`;
    const clientWith = (credential: string): Client =>
      createClient({
        url,
        token: () => credential,
        trustDomain: "cluster.local",
        extractableKeys: true,
      });
    const { certChain, trustBundle, privateKeyPem = "" } = await clientWith(token).issue();
    const key = createPrivateKey(privateKeyPem);
    const report = new Map(certificateReport([certChain, trustBundle.pem], key));
    assert.equal(report.get("SPIFFE ID"), spiffeId);
    await assert.rejects(clientWith(`${token}x`).issue(), /authentication failed/);
    child.kill("SIGTERM");
    assert.deepEqual(await ended, [0, null]);
  } finally {
    child.kill("SIGKILL");
    await cluster.close();
  }
}

const configurationFor = (issuer: string, store: string): string => `\
STORE_DIRECTORY = "${store}"
INCEPTION_DATE = ${new Date().toISOString().slice(0, 10)}
PROPAGATION_INTERVAL = "0s"
LISTEN = "127.0.0.1:0"
PLAINTEXT_LISTEN = "127.0.0.1:0"
MONITORING_LISTEN = "127.0.0.1:0"

[[ISSUERS]]
issuer = "${issuer}"
`;

function startServing(start: Start, options: readonly string[], folder: string): ChildProcess {
  const [program, ...words] = start.command;
  return spawn(program, [...words, "serve", ...options], {
    cwd: folder,
    ...(start.user !== undefined && { uid: start.user, gid: start.user }),
    env: { KEK: randomKek(), ...start.environment },
    stdio: ["ignore", "pipe", "pipe"],
  });
}

/** The port in the log, once the program serves. */
async function plaintextPort(child: ChildProcess, ended: Promise<unknown[]>): Promise<string> {
  const lines: string[] = [];
  const serving = new Promise<string>((resolve) => {
    let port = "";
    for (const stream of [child.stdout, child.stderr]) {
      if (stream === null) continue;
      createInterface(stream).on("line", (line) => {
        lines.push(line);
        port = /"plaintext on [^"]*:(\d+)"/.exec(line)?.[1] ?? port;
        if (line.includes('"gRPC on ')) resolve(port);
      });
    }
  });
  const early = ended.then(([code, signal]) => {
    throw new Error(`serve ended with ${code ?? signal}:\n${lines.join("\n")}`);
  });
  return await Promise.race([serving, early]);
}
