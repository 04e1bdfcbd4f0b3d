import { setTimeout as sleep } from "node:timers/promises";
import type { TestHarness } from "wrangler";
import { createWorkloadKey } from "../../dev/certificate-request.ts";
import { mintAccountToken, type TokenKey } from "../testkit/callers/tokens.ts";
import { handshake, type PeerCredentials } from "./tls-peer.ts";

/** What one workload asks for and gets. */
export async function obtain(
  worker: TestHarness,
  { issuer, tokenKey }: { readonly issuer: string; readonly tokenKey: TokenKey },
  [namespace, name]: readonly [string, string],
): Promise<PeerCredentials> {
  const spiffeId = `spiffe://cluster.local/ns/${namespace}/sa/${name}`;
  const { privateKey, csrPem } = await createWorkloadKey(spiffeId);
  const token = await mintAccountToken(tokenKey, issuer, `${namespace}:${name}`, new Date());
  const response = await worker.fetch("/istio.v1.auth.IstioCertificateService/CreateCertificate", {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${token}` },
    body: JSON.stringify({ csr: csrPem }),
  });
  const { certChain } = (await response.json()) as { certChain: string[] };
  const keyPem = privateKey.export({ type: "pkcs8", format: "pem" }).toString();
  return {
    spiffeId,
    chainPem: certChain.slice(0, -1).join(""),
    keyPem,
    trustBundlePem: certChain.at(-1) ?? "",
  };
}

/** The id of the authority that signs. */
export async function signerOf(worker: TestHarness): Promise<string> {
  return ((await (await worker.fetch("/readyz")).json()) as { authority: string }).authority;
}

/** The cron, every half second, for as long as the work takes: a slow machine must not make it late. */
export async function underCron<T>(worker: TestHarness, work: () => Promise<T>): Promise<T> {
  let isOver = false;
  const cron = async (): Promise<void> => {
    while (!isOver) {
      await worker.getWorker().scheduled({ cron: "* * * * *" });
      await sleep(500);
    }
  };
  const over = work().finally(() => {
    isOver = true;
  });
  const [result] = await Promise.all([over, cron()]);
  return result;
}

/** A workload: who it is now, and how it becomes that anew. */
export interface LivingPeer {
  current: PeerCredentials;
  obtainedAt: number;
  readonly renew: () => Promise<PeerCredentials>;
}

/** What is told of every handshake that succeeded. */
export type Meeting = (client: PeerCredentials, server: PeerCredentials) => void;

/**
 * Authenticates every pair in both directions. Whoever has lived half its life renews before it meets
 * anyone, and meets whom it was: another replica that has not renewed yet.
 */
export async function meet(
  peers: readonly LivingPeer[],
  leafSeconds: number,
  tell: Meeting,
): Promise<void> {
  const greet: Greeting = async (client, server) => {
    await handshake(client, server);
    tell(client, server);
  };
  for (const client of peers) {
    for (const server of peers) {
      const pair = [client, server];
      // The renewal of one may take so long that the other is due by then.
      while (pair.some((peer) => lived(peer) >= leafSeconds / 2)) {
        for (const peer of pair) await renewIfDue(peer, leafSeconds, greet);
      }
      await greet(client.current, server.current);
    }
  }
}

type Greeting = (client: PeerCredentials, server: PeerCredentials) => Promise<void>;

/** How long ago it asked for what it is, in seconds. */
const lived = ({ obtainedAt }: LivingPeer): number => (Date.now() - obtainedAt) / 1000;

async function renewIfDue(peer: LivingPeer, leafSeconds: number, greet: Greeting): Promise<void> {
  if (lived(peer) < leafSeconds / 2) return;
  const before = { ...peer };
  peer.obtainedAt = Date.now();
  peer.current = await peer.renew();
  // On a slow machine it may have taken as long as was left.
  if (lived(before) > leafSeconds * 0.75) return;
  await greet(before.current, peer.current);
  await greet(peer.current, before.current);
}
