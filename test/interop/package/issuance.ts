import assert from "node:assert/strict";
import { createPrivateKey } from "node:crypto";
import { chown, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { startDevelopmentCluster } from "../../../dev/cluster/cluster.ts";
import { certificateReport } from "../../../dev/workload/certificate-report.ts";
import { type Client, createClient } from "../../../src/client/client.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { launchRampart, serveToml } from "../../testkit/programs/rampart-process.ts";

/** How an installed `rampart` is started: the words before `serve`, and its environment. */
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
  const values = {
    PROPAGATION_INTERVAL: "0s",
    PLAINTEXT_LISTEN: "127.0.0.1:0",
    ISSUERS: [{ issuer: cluster.issuer }],
  };
  await writeFile(config, serveToml(join(folder, "store"), values));
  const environment = { KEK: randomKek(), NODE_COMPILE_CACHE: undefined, ...start.environment };
  const child = launchRampart(["serve", "--config", config], { ...start, environment, folder });
  try {
    // Callers get their port last.
    await child.addressOf("gRPC");
    const port = await child.portOf("plaintext");
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
    assert.equal(await child.end("SIGTERM"), 0);
  } finally {
    child.send("SIGKILL");
    await cluster.close();
  }
}
