import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createTestHarness } from "wrangler";
import { createWorkloadKey } from "../../dev/certificate-request.ts";
import { createTokenKey, jwksOf } from "../testkit/callers/tokens.ts";
import { type LivingPeer, meet, obtain as obtainFrom, signerOf, underCron } from "./live-mesh.ts";
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
});
afterAll(() => harness.close());

const obtain = (name: string): Promise<PeerCredentials> =>
  obtainFrom(harness, { issuer, tokenKey }, ["mesh", name]);

async function peerOf(name: string): Promise<LivingPeer> {
  const renew = (): Promise<PeerCredentials> => obtain(name);
  const obtainedAt = Date.now();
  return { current: await renew(), obtainedAt, renew };
}

const authorityOf = (): Promise<string> => signerOf(harness);

const rootsIn = (pem: string): number => pem.split("BEGIN CERTIFICATE").length - 1;

test("workloads never fail to authenticate each other before, during and after a rotation", async () => {
  await harness.getWorker().scheduled({ cron: "* * * * *" });
  const first = await authorityOf();
  const names = ["a", "b", "c", "d"];
  const peers = new Map<string, LivingPeer>();
  const authorities = new Set<string>();
  const bundleSizes = new Set<number>();
  let handshakes = 0;
  const tell = (...pair: readonly PeerCredentials[]): void => {
    handshakes++;
    for (const { trustBundlePem } of pair) bundleSizes.add(rootsIn(trustBundlePem));
  };
  const until = Date.now() + 4.5 * leafSeconds * 1000;
  await underCron(harness, async () => {
    // Each renews at another time, so that leaves and bundles of all ages meet; none lets half its life pass.
    for (let round = 0; Date.now() < until; round++) {
      const name = names[round % names.length] ?? "";
      peers.set(name, await peerOf(name));
      await meet([...peers.values()], leafSeconds, tell);
      authorities.add(await authorityOf());
      await sleep(500);
    }
  });
  expect(handshakes).toBeGreaterThan(100);
  expect(authorities.size).toBeGreaterThanOrEqual(2);
  expect(await authorityOf()).not.toBe(first);
  expect(Math.max(...bundleSizes)).toBeGreaterThan(1);
  expect(Math.max(...bundleSizes)).toBeLessThanOrEqual(3);
});

test("a workload of another mesh is not believed", async () => {
  const [ours, theirs] = await Promise.all([obtain("a"), obtain("b")]);
  const stranger = await createWorkloadKey(theirs.spiffeId);
  const keyPem = stranger.privateKey.export({ type: "pkcs8", format: "pem" }).toString();
  await expect(handshake({ ...theirs, keyPem }, ours)).rejects.toThrow();
  await expect(handshake({ ...theirs, spiffeId: ours.spiffeId }, ours)).rejects.toThrow();
});
