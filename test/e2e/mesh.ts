import { X509Certificate } from "node:crypto";
import { createClient } from "../../src/client/client.ts";
import { createTokenKey, jwksOf, mintAccountToken } from "../testkit/callers/tokens.ts";
import { handshake, type PeerCredentials } from "../testkit/network/tls-peer.ts";
import type { ClockedCa } from "./clocked-ca.ts";

const issuer = "https://cluster.test";
const tokenKey = await createTokenKey("ES256", "key-1");

/** `ISSUERS` of a CA that trusts the cluster of these workloads. */
export const issuers = [{ issuer, jwks: jwksOf(tokenKey) }];

/** The life of a leaf, which is far longer than these tests run. */
export const leafSeconds = 86_400;

/** Gets a certificate as a workload of the namespace `mesh`. @throws Error for a refusal */
export async function obtain(
  ca: Pick<ClockedCa, "now" | "fetch">,
  name: string,
): Promise<PeerCredentials> {
  const url = "https://ca.test";
  const client = createClient(
    {
      url,
      trustDomain: "cluster.local",
      extractableKeys: true,
      token: () => mintAccountToken(tokenKey, issuer, `mesh:${name}`, ca.now()),
      fetch: (address, { headers, body = null, method = "GET" }) =>
        ca.fetch(address.slice(url.length), {
          method,
          body,
          headers: Object.fromEntries(new Headers(headers)),
        }),
    },
    { clock: ca.now, random: Math.random, pause: () => Promise.resolve() },
  );
  const { spiffeId, certChain, privateKeyPem = "", trustBundle } = await client.issue();
  return { spiffeId, chainPem: certChain, keyPem: privateKeyPem, trustBundlePem: trustBundle.pem };
}

/** The roots that a peer trusts. */
export const rootsOf = ({ trustBundlePem }: PeerCredentials): X509Certificate[] =>
  trustBundlePem.split(/(?<=-----END CERTIFICATE-----\n)/).map((pem) => new X509Certificate(pem));

/** The root that has signed the leaf of a peer. */
export function signerOf(
  { chainPem }: PeerCredentials,
  roots: readonly X509Certificate[],
): X509Certificate | undefined {
  const leaf = new X509Certificate(chainPem);
  return roots.find(({ publicKey }) => leaf.verify(publicKey));
}

/**
 * Runs the cron five times in each life of a leaf, until the CA's clock shows the real time. Real TLS
 * reads the real clock, so workloads get certificates only during the last life of a leaf.
 *
 * @returns Their certificates, the oldest first.
 */
export async function liveUntilNow(ca: ClockedCa): Promise<PeerCredentials[]> {
  const now = Date.now();
  const peers: PeerCredentials[] = [];
  for (; ca.now().getTime() <= now; ca.pass(leafSeconds / 5)) {
    await ca.runCron();
    const isStillAlive = now - ca.now().getTime() < 900 * leafSeconds;
    if (isStillAlive) peers.push(await obtain(ca, `workload-${peers.length % 3}`));
  }
  return peers;
}

/** Has any two peers shake hands, and each with itself. Rejects if two do not authenticate each other. */
export async function meet(peers: readonly PeerCredentials[]): Promise<void> {
  for (const [i, client] of peers.entries()) {
    await Promise.all(peers.slice(i).map((server) => handshake(client, server)));
  }
}
