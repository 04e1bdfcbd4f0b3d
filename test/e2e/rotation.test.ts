import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createTestHarness } from "wrangler";
import { createWorkloadKey } from "../../dev/certificate-request.ts";
import { createTokenKey, jwksOf } from "../testkit/tokens.ts";
import { obtain as obtainFrom, signerOf } from "./live-mesh.ts";
import { handshake, type PeerCredentials } from "./tls-peer.ts";

const issuer = "https://cluster.test";
const tokenKey = await createTokenKey("ES256", "key-1");

// Leaves of eight seconds, authorities of forty: a whole rotation within the patience of a test.
const leafSeconds = 8;
const harness = createTestHarness({
  workers: [
    {
      configPath: "./wrangler.toml",
      vars: {
        ISSUERS: [{ issuer, jwks: jwksOf(tokenKey) }],
        INCEPTION_DATE: new Date().toISOString().slice(0, 10),
        PROPAGATION_INTERVAL: "0s",
        MAX_WORKLOAD_CERT_TTL: `${leafSeconds}s`,
        AUTHORITY_LIFETIME: `${5 * leafSeconds}s`,
      },
      secrets: { KEK: `e2e:${randomBytes(32).toString("base64")}` },
    },
  ],
});

beforeAll(async () => {
  await harness.listen();
}, 30_000);
afterAll(() => harness.close());

const obtain = (name: string): Promise<PeerCredentials> =>
  obtainFrom(harness, { issuer, tokenKey }, ["mesh", name]);

const authorityOf = (): Promise<string> => signerOf(harness);

const rootsIn = (pem: string): number => pem.split("BEGIN CERTIFICATE").length - 1;

test("workloads never fail to authenticate each other before, during and after a rotation", async () => {
  const runCron = () => harness.getWorker().scheduled({ cron: "* * * * *" });
  await runCron();
  const first = await authorityOf();
  const names = ["a", "b", "c", "d"];
  const peers = new Map<string, PeerCredentials>();
  const authorities = new Set<string>();
  const bundleSizes = new Set<number>();
  let handshakes = 0;
  const until = Date.now() + 4.5 * leafSeconds * 1000;
  const obtainedAt = new Map<string, number>();
  // Each renews at another time, so that leaves and bundles of all ages meet; none lets half its life pass.
  for (let round = 0; Date.now() < until; round++) {
    const isDue = (name: string): boolean =>
      Date.now() - (obtainedAt.get(name) ?? Date.now()) > (leafSeconds / 2) * 1000;
    for (const name of names.filter((name, i) => i === round % names.length || isDue(name))) {
      obtainedAt.set(name, Date.now());
      peers.set(name, await obtain(name));
    }
    const known = [...peers.values()];
    for (const peer of known) bundleSizes.add(rootsIn(peer.trustBundlePem));
    for (const [client, server] of known.flatMap((one) =>
      known.map((two) => [one, two] as const),
    )) {
      await handshake(client, server);
      handshakes++;
    }
    authorities.add(await authorityOf());
    await runCron();
    await sleep(300);
  }
  expect(handshakes).toBeGreaterThan(100);
  expect(authorities.size).toBeGreaterThanOrEqual(2);
  expect(await authorityOf()).not.toBe(first);
  expect(Math.max(...bundleSizes)).toBeGreaterThan(1);
  expect(Math.max(...bundleSizes)).toBeLessThanOrEqual(3);
}, 90_000);

test("a workload of another mesh is not believed", async () => {
  const [ours, theirs] = await Promise.all([obtain("a"), obtain("b")]);
  const stranger = await createWorkloadKey(theirs.spiffeId);
  const keyPem = stranger.privateKey.export({ type: "pkcs8", format: "pem" }).toString();
  await expect(handshake({ ...theirs, keyPem }, ours)).rejects.toThrow();
  await expect(handshake({ ...theirs, spiffeId: ours.spiffeId }, ours)).rejects.toThrow();
});
