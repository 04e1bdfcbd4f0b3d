import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { createTokenKey, jwksOf, mintAccountToken } from "../../testkit/callers/tokens.ts";
import { createWorkload } from "../../testkit/callers/workload.ts";
import { randomKek } from "../../testkit/configuration.ts";
import { nativeClient } from "../../testkit/network/native-grpc.ts";
import { repeatedly, until } from "../../testkit/time/until.ts";
import { istiodName } from "../native-grpc/mesh.ts";
import { type LoadBalancer, startLoadBalancer } from "../replicas/load-balancer.ts";
import { type Replica, startReplicas } from "../replicas/replica.ts";
import { killAndReturn, rollingUpdate } from "../replicas/story.ts";
import { bucket, credential, type Gateway } from "./gateway.ts";
import { LogAuditor } from "./log-auditor.ts";
import type { Scene } from "./scenes.ts";

const issuer = "https://issuer.example.com";
const callers = 64;
const readers = "r".repeat(40);
const shards = 3;

/** A stage with three replicas that log into the service. */
interface Stage {
  readonly replicas: readonly Replica[];
  readonly balancer: LoadBalancer;
}

type Act = readonly [string, (stage: Stage) => Promise<unknown>];

/** A replica that ends comes back as the next pod of a StatefulSet does, and one does not come back. */
const acts: readonly Act[] = [
  ["nothing happens", () => sleep(3000)],
  [
    "each replica is killed, and returns",
    async ({ replicas }) => {
      for (const each of replicas) await killAndReturn(each);
    },
  ],
  [
    "the bucket is away",
    async ({ replicas }) => {
      for (const each of replicas) each.link.cut();
      await sleep(4000);
      for (const each of replicas) each.link.mend();
      for (const each of replicas) await until(`${each.name} is not ready`, each.isReady);
    },
  ],
  ["a rolling update", ({ replicas, balancer }) => rollingUpdate(replicas, balancer)],
  ["one replica never returns", async ({ replicas: [, , last] }) => last?.kill()],
  ["nothing happens", () => sleep(2000)],
];

/** Three replicas of the program log into a real bucket, through everything that may befall them. */
export async function playLog(scene: Scene): Promise<string> {
  const folder = join(scene.folder, "log");
  await mkdir(folder);
  const auditor = await LogAuditor.build(folder, readers);
  await using cleanup = new AsyncDisposableStack();
  const key = await createTokenKey("ES256", "k1");
  const service = serviceBehind(scene.gateway);
  const names = ["a", "b", "c"];
  const replicas = await startReplicas(names, folder, service, keysWith(jwksOf(key)), cleanup);
  const balancer = await startLoadBalancer(replicas);
  cleanup.defer(balancer.end);
  const [first] = replicas;
  assert(first);
  /** The DER of every certificate that a caller got, in base64. */
  const answered = new Set<string>();
  const ending = new AbortController();
  // Callers of a play that has failed would go on for ever.
  cleanup.defer(async () => ending.abort());
  const roots = (await first.bundle()) ?? "";
  const calling = Array.from({ length: callers }, async (_, i) => {
    const token = await mintAccountToken(key, issuer, `shop:web-${i}`, new Date());
    await call(balancer.port, roots, token, answered, ending.signal);
  });
  const looking = repeatedly(async () => {
    for (const each of replicas) await auditor.keepCheckpoints(logUrl(each), shards);
  }, 300);
  for (const [what, act] of acts) {
    const before = answered.size;
    await act({ replicas, balancer });
    console.log(`        ${what}: ${answered.size - before} certificates`);
  }
  ending.abort();
  await Promise.all(calling);
  await looking.end();
  const counted = await auditor.untilLogged(logUrl(first), shards, answered);
  const { checkpoints } = auditor;
  return `${answered.size} answered, ${counted}; ${checkpoints} checkpoints verified by x/mod`;
}

const serviceBehind = ({ port, rootsFile }: Gateway) => ({
  port,
  keysBehind: (port: number) => ({
    STORE: "s3",
    STORE_BUCKET: bucket,
    STORE_PREFIX: "logged/",
    S3_ENDPOINT: `https://127.0.0.1:${port}`,
    S3_CA_FILE: rootsFile,
  }),
  environment: {
    KEK: randomKek(),
    LOG_READERS: readers,
    AWS_ACCESS_KEY_ID: credential.accessKeyId,
    AWS_SECRET_ACCESS_KEY: credential.secretAccessKey,
  },
});

const keysWith = (jwks: object) => ({
  PROPAGATION_INTERVAL: "10s",
  SERVING_NAMES: [istiodName],
  INCEPTION_DATE: new Date().toISOString().slice(0, 10),
  ISSUERS: [{ issuer, jwks }],
  CALLER_QUOTA: 1_000_000,
  ISSUER_QUOTA: 10_000_000,
  LOG_ORIGIN: "log.test/replicas",
  LOG_INTERVAL: "2s",
  LOG_SHARDS: shards,
});

/** Asks for certificates, one after the other, and connects anew after a failure. */
async function call(
  port: number,
  roots: string,
  token: string,
  answered: Set<string>,
  ending: AbortSignal,
): Promise<void> {
  const { csrPem: csr } = await createWorkload();
  const headers = { authorization: `Bearer ${token}` };
  while (!ending.aborted) {
    const client = nativeClient(port, istiodName, { roots });
    for (let fine = true; fine && !ending.aborted; ) {
      const deadline = Date.now() + 15_000;
      const outcome = await client.createCertificate({ csr }, headers, { deadline });
      fine = "certChain" in outcome;
      if ("certChain" in outcome)
        answered.add(new X509Certificate(outcome.certChain[0] ?? "").raw.toString("base64"));
      else await sleep(100);
    }
    client.close();
  }
}

const logUrl = (replica: Replica): string => replica.monitoringUrl("/log");
