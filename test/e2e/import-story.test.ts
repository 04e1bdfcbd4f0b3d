import "reflect-metadata/lite";
import { createPublicKey, randomBytes, X509Certificate } from "node:crypto";
import * as x509 from "@peculiar/x509";
import { afterAll, beforeAll, expect, test } from "vitest";
import { adoptAuthority } from "../../src/ca/rotation/adopt.ts";
import { loadPluggedIn } from "../../src/cli/verbs/import/load.ts";
import { type ImportedAuthority, verifyPluggedIn } from "../../src/cli/verbs/import/verify.ts";
import { Composition } from "../../src/config/composition.ts";
import { Configuration } from "../../src/config/configuration.ts";
import { Pem } from "../../src/pki/encoding/pem.ts";
import { webCryptoProvider } from "../../src/pki/web-crypto.ts";
import { addSeconds } from "../../src/pki/x509/validity.ts";
import { createKvStore } from "../../src/worker/kv-store.ts";
import { clusterLocal } from "../testkit/ca/sealed-authorities.ts";
import { createWorkloadKey } from "../testkit/callers/workload-key.ts";
import { randomKek } from "../testkit/configuration.ts";
import { createEventRecorder } from "../testkit/log/event-recorder.ts";
import { noFetching } from "../testkit/network/no-fetching.ts";
import type { PeerCredentials } from "../testkit/network/tls-peer.ts";
import { type ClockedCa, type ClockedCas, startClockedCas } from "./clocked-ca.ts";
import { issuers, leafSeconds, liveUntilNow, meet, rootsOf, signerOf } from "./mesh.ts";

const configuration = {
  TRUST_DOMAIN: "cluster.local",
  ISSUERS: issuers,
  PROPAGATION_INTERVAL: "0s",
  MAX_WORKLOAD_CERT_TTL: `${leafSeconds}s`,
  AUTHORITY_LIFETIME: `${4 * leafSeconds}s`,
  KEK: randomKek(),
};

/** The time since a mesh moved in, in lives of a leaf; the keys that sign; who trusts istiod's root. */
const stories: readonly [
  number,
  string,
  { signers: string[]; believers: "all" | "some" | "none" },
][] = [
  [0.5, "workloads from before are alive", { signers: ["rsa"], believers: "all" }],
  [1, "istiod's authority signs", { signers: ["rsa"], believers: "all" }],
  [1.5, "an EC root is published", { signers: ["rsa"], believers: "all" }],
  [2, "the EC authority begins to sign", { signers: ["ec", "rsa"], believers: "all" }],
  [2.5, "the EC authority signs", { signers: ["ec"], believers: "all" }],
  [3.5, "istiod's root has left", { signers: ["ec"], believers: "some" }],
  [4, "istiod's root is forgotten", { signers: ["ec"], believers: "none" }],
];

let cas: ClockedCas;
beforeAll(async () => {
  cas = await startClockedCas(configuration, stories.length);
});
afterAll(() => cas.close());

/** Imports an authority as the verb does, into the KV namespace of the CA. */
async function adopt(ca: ClockedCa, imported: ImportedAuthority): Promise<string> {
  const { mint } = await Composition.compose(Configuration.parse(configuration), {
    store: createKvStore(await ca.namespace()),
    fetching: noFetching,
    cryptoProvider: webCryptoProvider,
    log: createEventRecorder(),
    clock: ca.now,
  });
  const { certificates, privateKey: extractablePrivateKey, additionalRoots } = imported;
  const adopted = { certificates, extractablePrivateKey, additionalRoots };
  return (await adoptAuthority(mint, adopted, ca.now())).id;
}

/** A certificate that istiod issued before the move. */
async function issuedByIstiod(
  { certificates, privateKey }: ImportedAuthority,
  now: Date,
): Promise<PeerCredentials> {
  const spiffeId = "spiffe://cluster.local/ns/mesh/sa/legacy";
  const workload = await createWorkloadKey(spiffeId);
  const spki = createPublicKey(workload.privateKey).export({ type: "spki", format: "der" });
  const p256 = { name: "ECDSA", namedCurve: "P-256" };
  const { digitalSignature, keyEncipherment } = x509.KeyUsageFlags;
  const leaf = await x509.X509CertificateGenerator.create({
    serialNumber: randomBytes(16).toString("hex"),
    issuer: new x509.X509Certificate(certificates.certificate).subjectName,
    notBefore: addSeconds(now, -120),
    notAfter: addSeconds(now, leafSeconds),
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
    trustBundlePem: certificates.roots.map((root) => Pem.format("CERTIFICATE", root)).join(""),
  };
}

const material = await loadPluggedIn("test/vectors/istio-ca-secret.yaml");
const imported = await verifyPluggedIn(material, clusterLocal, new Date());
const istiodsRoot = new X509Certificate(imported.certificates.certificate);

/** Moves a mesh of istiod's in, this many lives of a leaf ago. @returns The workloads with live leaves. */
async function movedIn(age: number): Promise<PeerCredentials[]> {
  const ca = cas.create(addSeconds(new Date(), -age * leafSeconds));
  const legacy = await issuedByIstiod(imported, ca.now());
  const id = await adopt(ca, imported);
  expect(await (await ca.fetch("/readyz")).json()).toMatchObject({ ready: true, authority: id });
  const peers = await liveUntilNow(ca);
  return age < 1 ? [legacy, ...peers] : peers;
}

const believesIstiod = (peer: PeerCredentials): boolean =>
  rootsOf(peer).some(({ raw }) => raw.equals(istiodsRoot.raw));

test.each(stories)(
  "%d lives of a leaf after a mesh of istiod's has moved in, %s, and all workloads authenticate each other",
  async (age, _, { signers, believers }) => {
    const peers = await movedIn(age);
    const keyTypes = peers.map((p) => signerOf(p, rootsOf(p))?.publicKey.asymmetricKeyType);
    expect([...new Set(keyTypes)].toSorted()).toEqual(signers);
    const count = peers.filter(believesIstiod).length;
    expect(count === peers.length ? "all" : count > 0 ? "some" : "none").toBe(believers);
    await meet(peers);
  },
);
