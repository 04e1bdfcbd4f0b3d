import assert from "node:assert/strict";
import { generateKeyPairSync, sign, type X509Certificate } from "node:crypto";
import type { Row } from "../../outcome-table.ts";
import type { Scene } from "../cluster/scene.ts";
import {
  answered,
  conditionOf,
  type PodCertificateStatusJson,
  requestAs,
  type ScenePod,
  type SignerScene,
  setSignerScene,
  signerName,
  stubRequest,
  verified,
} from "./signer-scene.ts";

const podOf = ({ web }: Scene): ScenePod => ({ ...web, node: "node-1" });

const ofPods = [{ name: signerName, pods: { namespaces: ["shop"] } }];

async function withSigner(
  { plane, folder }: Scene,
  signers: readonly object[],
  work: (scene: SignerScene) => Promise<void>,
): Promise<void> {
  const scene = await setSignerScene(plane, folder);
  try {
    const { log } = await scene.start(signers);
    await work(scene).catch((error: unknown) => {
      console.error(JSON.stringify(log.operations));
      throw error;
    });
  } finally {
    await scene.end();
  }
}

async function stubSpec(kind: Parameters<typeof stubRequest>[0]): Promise<object> {
  return { stubPKCS10Request: await stubRequest(kind) };
}

async function requireWorkload(
  folder: string,
  status: PodCertificateStatusJson,
  bundlePem: string,
): Promise<X509Certificate> {
  assert.equal(conditionOf(status), "Issued Issued");
  const leaf = await verified(folder, status.certificateChain ?? "", bundlePem);
  assert.equal(leaf.subjectAltName, "URI:spiffe://cluster.local/ns/shop/sa/web");
  return leaf;
}

async function issuesToPods(scene: Scene): Promise<void> {
  const { plane, folder } = scene;
  const pod = podOf(scene);
  await withSigner(scene, ofPods, async ({ ca }) => {
    const serials = new Set<string>();
    for (const [kind, maxExpirationSeconds] of [
      ["ECDSAP256", 86_400],
      ["RSA3072", 3600],
      ["ED25519", 7_862_400],
    ] as const) {
      const spec = { ...(await stubSpec(kind)), maxExpirationSeconds };
      const name = await requestAs(plane, "node-1", pod, spec);
      const status = await answered(plane, pod, name);
      const leaf = await requireWorkload(folder, status, await ca.bundle());
      serials.add(leaf.serialNumber);
      const [notBefore, notAfter, refresh] = [
        status.notBefore,
        status.notAfter,
        status.beginRefreshAt,
      ].map((text) => new Date(text ?? "").getTime() / 1000);
      assert.equal(leaf.validToDate.getTime() / 1000, notAfter);
      const life = (notAfter ?? 0) - (notBefore ?? 0);
      assert.equal(life, Math.min(maxExpirationSeconds, 86_400));
      assert.equal((refresh ?? 0) - (notBefore ?? 0), life / 2);
    }
    assert.equal(serials.size, 3, "each request, so each refresh, gets a certificate of its own");
  });
}

/** Before 1.36, kubelets prove their keys by a signature over the UID of the pod. */
async function issuesForProofs(scene: Scene): Promise<void> {
  const { plane, folder } = scene;
  const pod = podOf(scene);
  await withSigner(scene, ofPods, async ({ ca }) => {
    const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 3072 });
    const key = { key: privateKey, padding: 6, saltLength: -2 };
    const name = await requestAs(plane, "node-1", pod, {
      pkixPublicKey: publicKey.export({ type: "spki", format: "der" }).toString("base64"),
      proofOfPossession: sign("sha256", Buffer.from(pod.uid), key).toString("base64"),
    });
    await requireWorkload(folder, await answered(plane, pod, name), await ca.bundle());
  });
}

async function deniesByPolicy(scene: Scene): Promise<void> {
  const { plane } = scene;
  const pod = podOf(scene);
  const policy = { namespaces: ["shop"], key_types: ["ECDSAP256", "RSA3072"] };
  await withSigner(scene, [{ name: signerName, pods: policy }], async () => {
    const ask = async (spec: object): Promise<string> =>
      conditionOf(await answered(plane, pod, await requestAs(plane, "node-1", pod, spec)));
    assert.equal(await ask(await stubSpec("ED25519")), "Denied UnsupportedKeyType");
    assert.equal(await ask(await stubSpec("ECDSAP256")), "Issued Issued");
  });
}

/** The rows on signer names, each with the rights of deploy/kustomize/base/signer/signer.yaml. */
export const signerRows: readonly Row<Scene>[] = [
  ["pod certificates: requested as a kubelet does, and refreshed", issuesToPods],
  ["pod certificates denied: a key type", deniesByPolicy],
];

/** `v1` has no such form of a key. */
export const betaSignerRows: readonly Row<Scene>[] = [
  [
    "pod certificates of kubelets before 1.36, which prove their keys by the pod's UID",
    issuesForProofs,
  ],
];
