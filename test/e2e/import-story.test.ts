import "reflect-metadata/lite";
import { createPublicKey, randomBytes, X509Certificate } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import * as x509 from "@peculiar/x509";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createTestHarness } from "wrangler";
import { createWorkloadKey } from "../../dev/certificate-request.ts";
import { adoptAuthority } from "../../src/ca/adopt.ts";
import { loadPluggedIn } from "../../src/cli/import/load.ts";
import { type ImportedAuthority, verifyPluggedIn } from "../../src/cli/import/verify.ts";
import { compose } from "../../src/compose/composition.ts";
import { parseConfiguration } from "../../src/config/configuration.ts";
import { toPem } from "../../src/pki/encoding/pem.ts";
import { createKvStore, type KvNamespace } from "../../src/worker/kv-store.ts";
import { clusterLocal } from "../testkit/ca/sealed-authorities.ts";
import { createTokenKey, jwksOf } from "../testkit/callers/tokens.ts";
import { createEventRecorder } from "../testkit/event-recorder.ts";
import { type LivingPeer, meet, obtain, signerOf, underCron } from "./live-mesh.ts";
import type { PeerCredentials } from "./tls-peer.ts";

const issuer = "https://cluster.test";
const tokenKey = await createTokenKey("ES256", "key-1");
const cluster = { issuer, tokenKey };

// Leaves of eight seconds, and authorities as short as they may be.
const leafSeconds = 8;
const vars = {
  ISSUERS: [{ issuer, jwks: jwksOf(tokenKey) }],
  PROPAGATION_INTERVAL: "0s",
  MAX_WORKLOAD_CERT_TTL: `${leafSeconds}s`,
  AUTHORITY_LIFETIME: `${4 * leafSeconds}s`,
};
const secrets = { KEK: `e2e:${randomBytes(32).toString("base64")}` };
const harness = createTestHarness({
  workers: [{ configPath: "./wrangler.toml", vars, secrets }],
});

beforeAll(async () => {
  await harness.listen();
});
afterAll(() => harness.close());

/** What the verb does, in the namespace of the workerd that serves. */
async function adopt(imported: ImportedAuthority): Promise<string> {
  const { AUTHORITIES } = await harness.getWorker<{ AUTHORITIES: KvNamespace }>().getEnv();
  const { mint } = await compose(parseConfiguration({ ...vars, ...secrets }), {
    store: createKvStore(AUTHORITIES),
    log: createEventRecorder(),
    clock: () => new Date(),
  });
  const { certificates, privateKey: extractablePrivateKey, additionalRoots } = imported;
  const adopted = { certificates, extractablePrivateKey, additionalRoots };
  return (await adoptAuthority(mint, adopted, new Date())).id;
}

/** A certificate as istiod gave it before anybody thought of moving. */
async function issuedByIstiod(
  { certificates, privateKey }: ImportedAuthority,
  name: string,
): Promise<PeerCredentials> {
  const spiffeId = `spiffe://cluster.local/ns/foo/sa/${name}`;
  const workload = await createWorkloadKey(spiffeId);
  const spki = createPublicKey(workload.privateKey).export({ type: "spki", format: "der" });
  const p256 = { name: "ECDSA", namedCurve: "P-256" };
  const now = Date.now();
  const { digitalSignature, keyEncipherment } = x509.KeyUsageFlags;
  const leaf = await x509.X509CertificateGenerator.create({
    serialNumber: randomBytes(16).toString("hex"),
    issuer: new x509.X509Certificate(certificates.certificate).subjectName,
    notBefore: new Date(now - 120_000),
    notAfter: new Date(now + leafSeconds * 1000),
    publicKey: await crypto.subtle.importKey("spki", new Uint8Array(spki), p256, true, ["verify"]),
    signingKey: privateKey,
    signingAlgorithm: { name: "RSASSA-PKCS1-v1_5", hash: "SHA-256" },
    extensions: [
      new x509.KeyUsagesExtension(digitalSignature | keyEncipherment, true),
      new x509.ExtendedKeyUsageExtension([
        x509.ExtendedKeyUsage.serverAuth,
        x509.ExtendedKeyUsage.clientAuth,
      ]),
      new x509.SubjectAlternativeNameExtension([{ type: "url", value: spiffeId }], true),
    ],
  });
  return {
    spiffeId,
    chainPem: `${leaf.toString("pem")}\n`,
    keyPem: workload.privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
    trustBundlePem: certificates.roots.map((root) => toPem("CERTIFICATE", root)).join(""),
  };
}

async function peerOf(name: string, before?: PeerCredentials): Promise<LivingPeer> {
  const renew = (): Promise<PeerCredentials> => obtain(harness, cluster, ["foo", name]);
  const obtainedAt = Date.now();
  return { current: before ?? (await renew()), obtainedAt, renew };
}

const signatureKeyOf = ({ chainPem }: PeerCredentials, roots: readonly X509Certificate[]) =>
  roots.find((root) => new X509Certificate(chainPem).verify(root.publicKey))?.publicKey
    .asymmetricKeyType;

const rootsOf = ({ trustBundlePem }: PeerCredentials): X509Certificate[] =>
  trustBundlePem.split(/(?<=-----END CERTIFICATE-----\n)/).map((pem) => new X509Certificate(pem));

test("a mesh of istiod's moves in and on to an EC key, and no two workloads ever fail to authenticate", async () => {
  const material = await loadPluggedIn("test/vectors/istio-ca-secret.yaml");
  const imported = await verifyPluggedIn(material, clusterLocal, new Date());
  const istiodsRoot = new X509Certificate(imported.certificates.certificate);
  const legacy = await peerOf("legacy", await issuedByIstiod(imported, "legacy"));
  const id = await adopt(imported);
  expect(await signerOf(harness)).toBe(id);

  const httpbin = await peerOf("httpbin");
  expect(httpbin.current.spiffeId).toBe("spiffe://cluster.local/ns/foo/sa/httpbin");
  expect(signatureKeyOf(httpbin.current, [istiodsRoot])).toBe("rsa");
  expect(rootsOf(httpbin.current).map(({ raw }) => raw)).toEqual([istiodsRoot.raw]);

  const peers = [legacy, httpbin];
  const meetings = new Map<string, number>();
  const tell = (...pair: readonly PeerCredentials[]): void => {
    const kinds = pair.map((peer) => signatureKeyOf(peer, pair.flatMap(rootsOf))).join(" to ");
    meetings.set(kinds, (meetings.get(kinds) ?? 0) + 1);
  };
  await meet(peers, leafSeconds, tell);
  const isMovedOut = (): boolean =>
    peers.every(({ current }) => rootsOf(current).every(({ raw }) => !raw.equals(istiodsRoot.raw)));
  await underCron(harness, async () => {
    // A third comes later, so that the three never renew together.
    await sleep(1500);
    peers.push(await peerOf("sleep"));
    while (!isMovedOut()) {
      await meet(peers, leafSeconds, tell);
      await sleep(300);
    }
  });
  // Workloads from before and from after have met, whichever of them called.
  expect([...meetings.keys()].toSorted()).toEqual([
    "ec to ec",
    "ec to rsa",
    "rsa to ec",
    "rsa to rsa",
  ]);
  expect(await signerOf(harness)).not.toBe(id);
});
