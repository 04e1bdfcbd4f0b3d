import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parseAllDocuments, stringify } from "yaml";
import { blocksUnder, textsIn } from "../../../pages/page-blocks.ts";
import { runWell, startChild } from "../../../testkit/programs/child-process.ts";
import { succeeds, until } from "../../../testkit/time/until.ts";
import type { Row } from "../../outcome-table.ts";
import { fromGoModule, required } from "../../software.ts";
import { mint } from "../cluster/accounts.ts";
import type { ControlPlane, Json } from "../cluster/control-plane.ts";
import { writeKubeconfig } from "../cluster/kubeconfig.ts";
import { findHelm } from "../cluster/programs.ts";
import type { Scene } from "../cluster/scene.ts";
import {
  certManagerFolder,
  collection,
  createOwnIssuer,
  csrFor,
  decide,
  request,
  textOf,
  withCertManager,
} from "./cert-manager-rows.ts";

/** The commands of the page that create a Certificate, and wait for it. */
async function commands(): Promise<string> {
  const blocks = await blocksUnder("docs/how-to/signers.md", "cert-manager");
  return textsIn(blocks, "sh")[1] ?? "";
}

const webhooks = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"];

/** Installs cert-manager by its chart, as the page says, and runs its programs outside of the cluster. */
export async function startCertManager({ plane, folder }: Scene) {
  const file = (name: string): string => join(folder, name);
  const KUBECONFIG = file("kubeconfig-of-certificates");
  await writeKubeconfig(plane, KUBECONFIG);
  const type = (script: string): Promise<string> =>
    runWell("sh", ["-euc", script], { environment: { KUBECONFIG }, timeoutSeconds: 120 });
  await type("kubectl create namespace cert-manager --dry-run=client -o yaml | kubectl apply -f -");
  const chart = await render(await required(findHelm()));
  const apply = async (objects: readonly Json[]): Promise<void> => {
    await writeFile(
      file("cert-manager.yaml"),
      objects.map((each) => stringify(each)).join("---\n"),
    );
    await type(`kubectl apply --server-side --force-conflicts -f ${file("cert-manager.yaml")}`);
  };
  const isWebhook = ({ kind }: Json): boolean => `${kind}`.endsWith("WebhookConfiguration");
  await apply(chart.filter((each) => !isWebhook(each)));
  await type("kubectl wait --for=condition=established crd/certificates.cert-manager.io");
  const environment: Record<string, string> = {};
  for (const [variable, account] of [
    ["CONTROLLER_KUBECONFIG", "cert-manager"],
    ["WEBHOOK_KUBECONFIG", "cert-manager-webhook"],
  ] as const) {
    environment[variable] = file(variable);
    const token = await mint(plane, "cert-manager", account, { audiences: [] });
    await writeKubeconfig(plane, file(variable), token);
  }
  const program = await required(
    fromGoModule(join(import.meta.dirname, "../cert-manager"), "cert-manager"),
  );
  const child = startChild(program, [], { environment });
  const place = await new Promise<string>((resolve, reject) => {
    child.onLine((line) => line.startsWith("{") && resolve(line));
    child.ended.then(({ stdout, stderr }) => reject(new Error(stdout + stderr)), reject);
  });
  const { url, ca } = JSON.parse(place) as { url: string; ca: string };
  await apply(chart.filter(isWebhook).map((each) => pointed(each, url, ca)));
  const end = async (): Promise<void> => {
    for (const kind of webhooks) await type(`kubectl delete ${kind} cert-manager-webhook`);
    await child.end();
  };
  return {
    /** Types lines with kubectl as the cluster's administrator. */
    type,
    end,
  };
}

/** The objects of cert-manager's own chart, with the value that the page names. */
async function render(helm: string): Promise<readonly Json[]> {
  const values = ["crds.enabled=true", "approveSignerNames={rampartclusterissuers.rampart.dev/*}"];
  const words = values.flatMap((value) => ["--set", value]);
  const chart = join(await certManagerFolder(), "deploy/charts/cert-manager");
  const place = ["--namespace", "cert-manager", "--no-hooks", "--kube-version", "1.36.0"];
  const rendered = await runWell(helm, ["template", "cert-manager", chart, ...place, ...words]);
  return parseAllDocuments(rendered)
    .map((each) => each.toJS() as Json | null)
    .filter((each) => each !== null)
    .filter(({ kind }) => kind !== "Deployment" && kind !== "Service");
}

/** A webhook's configuration that leads to an address, and not to a Service. */
function pointed(configuration: Json, url: string, ca: string): Json {
  const path = configuration["kind"] === "MutatingWebhookConfiguration" ? "mutate" : "validate";
  const clientConfig = { url: `${url}/${path}`, caBundle: Buffer.from(ca).toString("base64") };
  const hooks = configuration["webhooks"] as readonly Json[];
  return { ...configuration, webhooks: hooks.map((each) => ({ ...each, clientConfig })) };
}

interface Condition {
  readonly type: string;
  readonly status: string;
  readonly reason: string;
}

interface CertificateStatus {
  readonly conditions?: readonly Condition[];
  readonly revision?: number;
}

const certificates = "/apis/cert-manager.io/v1/namespaces/shop/certificates";

async function statusOf({ call }: ControlPlane, name: string): Promise<CertificateStatus> {
  const { status = {} } = await call("GET", `${certificates}/${name}`);
  return status as CertificateStatus;
}

const conditionOf = ({ conditions = [] }: CertificateStatus, wanted: string) =>
  conditions.find(({ type }) => type === wanted);

async function create({ call }: ControlPlane, name: string, changes: object): Promise<void> {
  await call("POST", certificates, {
    apiVersion: "cert-manager.io/v1",
    kind: "Certificate",
    metadata: { name },
    spec: {
      secretName: `${name}-tls`,
      usages: ["digital signature", "server auth"],
      privateKey: { algorithm: "ECDSA", size: 256 },
      issuerRef: { group: "rampart.dev", kind: "RampartClusterIssuer", name: "mesh" },
      ...changes,
    },
  });
}

/** Waits until cert-manager has given up a Certificate for now. @returns The reason. */
async function failureOf(plane: ControlPlane, name: string): Promise<string | undefined> {
  let failed: Condition | undefined;
  await until(`${name} has not failed`, async () => {
    failed = conditionOf(await statusOf(plane, name), "Issuing");
    return failed?.status === "False";
  });
  return failed?.reason;
}

async function certifies(scene: Scene): Promise<void> {
  const { plane, folder } = scene;
  await withCertManager(scene, async ({ ca }) => {
    const certManager = await startCertManager(scene);
    try {
      assert.match(
        await certManager.type(await commands()),
        /certificate\.cert-manager\.io\/web condition met/,
      );
      const first = await verifiedSecret(plane, folder, await ca.bundle());
      await renew(plane, "web");
      const second = await verifiedSecret(plane, folder, await ca.bundle());
      assert.notEqual(second["tls.crt"], first["tls.crt"]);
      assert.notEqual(second["tls.key"], first["tls.key"], "a renewal has a key of its own");
      await create(plane, "other", { dnsNames: ["web.other.svc"] });
      assert.equal(await failureOf(plane, "other"), "NameNotAllowed");
      await isDenied(plane);
      await namesTheRequester(plane);
    } finally {
      await certManager.end();
    }
  });
}

/** The Secret of the page, whose chain leads to the mesh's roots, and to the CA beside it. */
async function verifiedSecret({ call }: ControlPlane, folder: string, roots: string) {
  const { data } = await call("GET", "/api/v1/namespaces/shop/secrets/web-tls");
  const texts = Object.fromEntries(
    Object.entries(data as Record<string, string>).map(([name, base64]) => [name, textOf(base64)]),
  );
  assert.equal(texts["ca.crt"], roots);
  const file = (name: string): string => join(folder, `secret-${name}`);
  for (const [name, text] of Object.entries(texts)) await writeFile(file(name), text);
  const judged = ["-verify_hostname", "web.shop.svc", "-purpose", "sslserver"];
  const trusted = ["-CAfile", file("ca.crt"), "-untrusted", file("tls.crt")];
  await runWell("openssl", ["verify", "-x509_strict", ...judged, ...trusted, file("tls.crt")]);
  return texts;
}

/** Renews as `cmctl renew` does. */
async function renew(plane: ControlPlane, name: string): Promise<void> {
  await until(`${name} cannot be marked`, async () => {
    const certificate = await plane.call("GET", `${certificates}/${name}`);
    const { conditions = [], ...status } = certificate["status"] as CertificateStatus;
    const issuing = { type: "Issuing", status: "True", reason: "ManuallyTriggered", message: "" };
    const body = { ...certificate, status: { ...status, conditions: [...conditions, issuing] } };
    return succeeds(plane.call("PUT", `${certificates}/${name}/status`, body));
  });
  await until(`${name} is not renewed`, async () => (await statusOf(plane, name)).revision === 2);
}

interface Issued {
  readonly issuerRef: { readonly name: string };
}

async function isDenied(plane: ControlPlane): Promise<void> {
  await createOwnIssuer(plane, "shop");
  const issuerRef = { group: "rampart.dev", kind: "RampartIssuer", name: "ours" };
  await create(plane, "denied", { dnsNames: ["denied.shop.svc"], issuerRef });
  const path = collection("shop");
  let name: string | undefined;
  await until("there is no request", async () => {
    const { items } = await plane.call("GET", path);
    const all = items as readonly { metadata: { name: string }; spec: Issued }[];
    name = all.find(({ spec }) => spec.issuerRef.name === "ours")?.metadata.name;
    return name !== undefined;
  });
  await decide(plane, "shop", name ?? "", "Denied");
  assert.equal(await failureOf(plane, "denied"), "ByTheSuite");
}

/** The webhook writes who has created a request over what the request says. */
async function namesTheRequester(plane: ControlPlane): Promise<void> {
  const username = "system:serviceaccount:cert-manager:cert-manager-istio-csr";
  const name = await request(plane, await csrFor("shop", "web"), "shop", { username });
  const { spec } = await plane.call("GET", `${collection("shop")}/${name}`);
  assert.equal((spec as { username: string }).username, "admin");
}

/** cert-manager itself in front: its webhook counts for every row that comes after, so it is ended. */
export const certificateRows: readonly Row<Scene>[] = [
  ["cert-manager itself: a Certificate, its renewal, another's name, a denial", certifies],
];
