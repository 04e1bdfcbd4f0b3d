import { afterAll, beforeAll, expect, test } from "vitest";
import { addSeconds } from "../../src/pki/x509/validity.ts";
import { createWorkloadKey } from "../testkit/callers/workload-key.ts";
import { randomKek } from "../testkit/configuration.ts";
import { handshake, type PeerCredentials } from "../testkit/network/tls-peer.ts";
import { type ClockedCa, type ClockedCas, startClockedCas } from "./clocked-ca.ts";
import { issuers, leafSeconds, liveUntilNow, meet, obtain, rootsOf, signerOf } from "./mesh.ts";

/** The age of a CA in lives of a leaf, and the event of the last one. */
const stories: readonly [number, string, { signers: number; bundles: number[] }][] = [
  [1, "publishes a second root", { signers: 1, bundles: [1, 2] }],
  [1.5, "has published a second root", { signers: 1, bundles: [1, 2] }],
  [2, "begins to sign by its second authority", { signers: 2, bundles: [2] }],
  [2.5, "has begun to sign by its second authority", { signers: 2, bundles: [2] }],
  [3, "publishes a third root", { signers: 1, bundles: [2, 3] }],
  [3.5, "has published a third root", { signers: 1, bundles: [2, 3] }],
  [4, "forgets its first root, and begins to sign by the third", { signers: 2, bundles: [2, 3] }],
  [4.5, "has forgotten its first root", { signers: 2, bundles: [2, 3] }],
];

let cas: ClockedCas;
beforeAll(async () => {
  const variables = {
    TRUST_DOMAIN: "cluster.local",
    ISSUERS: issuers,
    PROPAGATION_INTERVAL: "0s",
    MAX_WORKLOAD_CERT_TTL: `${leafSeconds}s`,
    AUTHORITY_LIFETIME: `${5 * leafSeconds}s`,
    KEK: randomKek(),
  };
  cas = await startClockedCas(variables, stories.length + 1);
});
afterAll(() => cas.close());

const createCa = (age: number): ClockedCa => cas.create(addSeconds(new Date(), -age * leafSeconds));

const fingerprintOfSigner = (peer: PeerCredentials): string | undefined =>
  signerOf(peer, rootsOf(peer))?.fingerprint256;

test.each(stories)(
  "workloads never fail to authenticate each other while a CA of %d lives of a leaf %s",
  async (age, _, { signers, bundles }) => {
    const peers = await liveUntilNow(createCa(age));
    expect(new Set(peers.map(fingerprintOfSigner)).size).toBe(signers);
    expect([...new Set(peers.map((peer) => rootsOf(peer).length))].toSorted()).toEqual(bundles);
    await meet(peers);
  },
);

test("a workload with another's certificate or another's name is refused", async () => {
  const ca = createCa(0);
  await ca.runCron();
  const [ours, theirs] = [await obtain(ca, "a"), await obtain(ca, "b")];
  const stranger = await createWorkloadKey(theirs.spiffeId);
  const keyPem = stranger.privateKey.export({ type: "pkcs8", format: "pem" }).toString();
  await expect(handshake({ ...theirs, keyPem }, ours)).rejects.toThrow();
  await expect(handshake({ ...theirs, spiffeId: ours.spiffeId }, ours)).rejects.toThrow();
});
