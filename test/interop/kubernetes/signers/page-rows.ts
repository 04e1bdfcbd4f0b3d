import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parse as parseToml } from "smol-toml";
import { parse as parseYaml } from "yaml";
import { blocksUnder, textsIn } from "../../../pages/page-blocks.ts";
import { emptyCsr } from "../../../testkit/kubernetes/certificate-requests.ts";
import { runWell } from "../../../testkit/programs/child-process.ts";
import { until } from "../../../testkit/time/until.ts";
import type { Row } from "../../outcome-table.ts";
import { mint } from "../cluster/accounts.ts";
import type { ControlPlane, Json } from "../cluster/control-plane.ts";
import { writeKubeconfig } from "../cluster/kubeconfig.ts";
import type { Scene } from "../cluster/scene.ts";
import { distributing } from "../distributing.ts";
import { approvedRequest, csrFor, installRequests } from "./cert-manager-rows.ts";
import {
  answered,
  conditionOf,
  requestAs,
  type ScenePod,
  type SignerScene,
  setSignerScene,
  stubRequest,
  verified,
} from "./signer-scene.ts";

const page = "docs/how-to/signers.md";

/** Another one than in the manifests, so that each command has to carry it. */
const signer = "shop.example.com/mesh";

/** Runs the lines of a block by a shell, with kubectl as the administrator of the cluster. */
type Type = (script: string) => Promise<string>;

async function terminalOf({ plane, folder }: Scene, ca: string): Promise<Type> {
  const KUBECONFIG = join(folder, "kubeconfig-of-the-page");
  await writeKubeconfig(plane, KUBECONFIG);
  const IMAGE = "registry.test/rampart:1";
  const environment = {
    KUBECONFIG,
    SIGNER: signer,
    CA: ca,
    IMAGE,
    BUNDLE: bundleName,
    OUT: folder,
  };
  return (script) => runWell("sh", ["-euc", script], { environment, timeoutSeconds: 120 });
}

const bundleName = `${signer.replace("/", ":")}:root-cert`;

/** What a manifest has put into the ConfigMap of a program. */
async function configured({ call }: ControlPlane, name: string, key: string): Promise<Json> {
  const { data } = await call("GET", `/api/v1/namespaces/istio-system/configmaps/${name}`);
  return parseToml((data as Record<string, string>)[key] ?? "") as Json;
}

/** A block in two: what is typed before this command, and it with the rest. */
function splitAt(script: string, command: string): readonly [string, string] {
  const at = script.indexOf(command);
  assert(at > 0, `${page} has no ${command}`);
  return [script.slice(0, at), script.slice(at)];
}

async function playsThePage(scene: Scene): Promise<void> {
  const { plane, folder } = scene;
  const blocks = await blocksUnder(page, "Set it up");
  const [table = ""] = textsIn(blocks, "toml");
  const [applySigner = "", applyBundle = ""] = textsIn(blocks, "sh");
  const [pod = ""] = textsIn(blocks, "yaml");
  const { ISSUERS } = parseToml(`[[ISSUERS]]\n${table}`) as { ISSUERS: object[] };
  const signers = await setSignerScene(plane, folder, ISSUERS[0]);
  const ca = `https://localhost:${signers.ca.port}`;
  const type = await terminalOf(scene, ca);
  try {
    const [first, lease] = splitAt(applySigner, "kubectl -n istio-system get lease");
    const [, values = "", names = ""] =
      /^(export SIGNER=\S+ CA=\S+ IMAGE=\S+\n)(names=.*\n)/.exec(first) ?? [];
    assert(names !== "", "the page sets the variables of its commands");
    await type(first.slice(values.length));
    const { UPSTREAM, SIGNERS } = await configured(plane, "rampart-signer", "signer.toml");
    assert.equal(UPSTREAM, ca);
    const running = await signers.start(SIGNERS as object[]);
    await until("no process leads", async () => (await running.readiness()).leading);
    assert.match(await type(lease), /HOLDER[\s\S]*rampart-signer +\S+/);
    const roots = await publishedRoots(scene, signers, { type, script: names + applyBundle });
    await mounts(scene, pod.replaceAll("mesh.example.com/workload", signer), roots);
    await running.end();
    const begun = { type, SIGNERS: SIGNERS as object[], roots };
    await certifiesTheService(scene, signers, begun);
    await answersCertManager(scene, signers, begun);
  } finally {
    await signers.end();
  }
}

/** Types step 4, and runs `rampart distribute` as the manifest would. @returns The roots in the bundle, PEM. */
async function publishedRoots(
  scene: Scene,
  { ca }: SignerScene,
  { type, script }: { readonly type: Type; readonly script: string },
): Promise<string> {
  const { plane, folder } = scene;
  const [apply, look] = splitAt(script, "kubectl get clustertrustbundle");
  await type(apply);
  const UPSTREAM_CA_FILE = join(folder, "bundle.pem");
  await writeFile(UPSTREAM_CA_FILE, await ca.bundle());
  const values = await configured(plane, "rampart-distribute", "distribute.toml");
  const token = await mint(plane, "istio-system", "rampart-distribute", { audiences: [] });
  await distributing(scene, token, { ...values, UPSTREAM_CA_FILE }, () =>
    until("there is no ClusterTrustBundle of the signer", () =>
      type(look).then((said) => said.includes(bundleName) && said.includes(signer), never),
    ),
  );
  const path = `${plane.certificates}/clustertrustbundles/${encodeURIComponent(bundleName)}`;
  const { spec } = await plane.call("GET", path);
  return (spec as { trustBundle: string }).trustBundle;
}

const never = (): false => false;

interface PodCertificate {
  readonly signerName: string;
  readonly keyType: "ECDSAP256";
  readonly maxExpirationSeconds: number;
}

interface Pod {
  readonly metadata: { readonly name: string; readonly namespace: string; readonly uid: string };
  readonly spec: {
    readonly serviceAccountName: string;
    readonly volumes: readonly {
      readonly projected: {
        readonly sources: readonly { readonly podCertificate?: PodCertificate }[];
      };
    }[];
  };
}

/** Creates the pod of the page, and does what the kubelet of its node does for the volume. */
async function mounts({ plane, folder }: Scene, yaml: string, roots: string): Promise<void> {
  const asked = parseYaml(yaml) as Pod;
  const path = "/api/v1/namespaces/shop/pods";
  const scheduled = {
    ...asked,
    metadata: { ...asked.metadata, name: "web-of-the-page" },
    spec: { ...asked.spec, nodeName: "node-1" },
  };
  const options = "fieldValidation=Strict";
  const created = (await plane.call("POST", `${path}?${options}`, scheduled)) as unknown as Pod;
  const { metadata, spec } = created;
  const source = spec.volumes
    .flatMap(({ projected }) => projected?.sources ?? [])
    .find(({ podCertificate }) => podCertificate)?.podCertificate;
  assert(source, "the API server dropped the pod certificate from the volume");
  const { signerName, keyType, maxExpirationSeconds } = source;
  const { name, namespace, uid } = metadata;
  const pod: ScenePod = { namespace, account: spec.serviceAccountName, name, uid, node: "node-1" };
  const stubPKCS10Request = await stubRequest(keyType);
  const wanted = { signerName, maxExpirationSeconds, stubPKCS10Request };
  const status = await answered(plane, pod, await requestAs(plane, "node-1", pod, wanted));
  assert.equal(conditionOf(status), "Issued Issued");
  const { subjectAltName } = await verified(folder, status.certificateChain ?? "", roots);
  assert.equal(subjectAltName, "URI:spiffe://cluster.local/ns/shop/sa/web");
}

/** What the second part of the page needs from the first. */
interface Begun {
  readonly type: Type;
  readonly SIGNERS: readonly object[];
  readonly roots: string;
}

async function certifiesTheService(
  { plane, folder }: Scene,
  signers: SignerScene,
  { type, SIGNERS, roots }: Begun,
): Promise<void> {
  const blocks = await blocksUnder(page, "Serving certificates of services");
  const [table = ""] = textsIn(blocks, "toml");
  const [rights = "", script = ""] = textsIn(blocks, "sh");
  const { SIGNERS: added } = parseToml(`[[SIGNERS]]\n${table}`) as { SIGNERS: object[] };
  await plane.call("POST", "/api/v1/namespaces/shop/serviceaccounts", {
    metadata: { name: "webhook" },
  });
  await type(rights);
  const running = await signers.start([{ ...SIGNERS[0], ...added[0] }]);

  await type(`cd "$OUT"\n${script}`);
  const pem = await readFile(join(folder, "webhook.pem"), "utf8");
  assert.equal((await verified(folder, pem, roots)).subjectAltName, "DNS:webhook.shop.svc");
  await deniesAnother(plane);
  await running.end();
}

async function deniesAnother({ call }: ControlPlane): Promise<void> {
  const path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
  const { pem } = await emptyCsr("P-256", [{ type: "dns", value: "webhook.shop.svc" }]);
  const request = Buffer.from(pem).toString("base64");
  const usages = ["digital signature", "key encipherment", "server auth"];
  await call("POST", path, {
    metadata: { name: "another" },
    spec: { signerName: signer, request, usages },
  });
  let answer: Json = {};
  await until("another's request has no answer", async () => {
    answer = (await call("GET", `${path}/another`))["status"] as Json;
    return "conditions" in answer;
  });
  assert.match(JSON.stringify(answer), /"type":"Denied".*"reason":"RequesterNotServed"/);
  assert(!("certificate" in answer));
}

async function answersCertManager(
  { plane, folder }: Scene,
  signers: SignerScene,
  { type, SIGNERS, roots }: Begun,
): Promise<void> {
  const blocks = await blocksUnder(page, "cert-manager");
  const [table = ""] = textsIn(blocks, "toml");
  const [script = ""] = textsIn(blocks, "sh");
  const { SIGNERS: added } = parseToml(`[[SIGNERS]]\n${table}`) as { SIGNERS: object[] };
  await installRequests(plane);
  const running = await signers.start([{ ...SIGNERS[0], ...added[0] }]);
  await until("no process leads", async () => (await running.readiness()).leading);
  assert.match(await type(script), /NAME +SIGNER[\s\S]*mesh +shop.example.com\/mesh/);
  const status = await approvedRequest(plane, await csrFor("shop", "web"), "shop");
  const pem = Buffer.from(status.certificate ?? "", "base64").toString();
  const { subjectAltName } = await verified(folder, pem, roots);
  assert.equal(subjectAltName, "URI:spiffe://cluster.local/ns/shop/sa/web");
}

/** The row that types the page. It is the last one: afterwards the rights are those of its signer name. */
export const pageRows: readonly Row<Scene>[] = [
  ["docs/how-to/signers.md, typed as it stands, with kubectl", playsThePage],
];
