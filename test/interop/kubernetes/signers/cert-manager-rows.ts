import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { LogEntry } from "../../../../src/ca/issuance/log-entry.ts";
import { Tile } from "../../../../src/tlog/tile.ts";
import type { ServedCa } from "../../../testkit/ca/served-ca.ts";
import {
  certManagerRequestJson,
  emptyCsr,
} from "../../../testkit/kubernetes/certificate-requests.ts";
import { until } from "../../../testkit/time/until.ts";
import type { ControlPlane } from "../cluster/control-plane.ts";
import { applyFile, applyManifest, moduleFolder, untilServed } from "../cluster/manifests.ts";
import type { Scene } from "../cluster/scene.ts";
import type { Row } from "../rows.ts";
import {
  answered,
  requestAs,
  type SignerScene,
  setSignerScene,
  signerName,
  stubRequest,
} from "./signer-scene.ts";

/** The account and the serving name of istio-csr by its own chart. */
export const istioCsr = "cert-manager/cert-manager-istio-csr";
export const servedNameOfIstioCsr = "cert-manager-istio-csr.cert-manager.svc";

const ofCertManager = [
  {
    name: signerName,
    cert_manager: [
      { namespaces: ["shop", "pay"], dns_names: ["*.shop.svc"] },
      {
        namespaces: ["istio-system"],
        requester: istioCsr,
        identities: ["shop"],
        dns_names: [servedNameOfIstioCsr],
      },
    ],
  },
];

const signers = {
  cluster_signers: [
    {
      account: "istio-system/rampart-signer",
      namespaces: ["shop", "pay"],
      dns_names: ["*.shop.svc", servedNameOfIstioCsr],
    },
  ],
};

export const collection = (namespace: string): string =>
  `/apis/cert-manager.io/v1/namespaces/${namespace}/certificaterequests`;

/** The folder of cert-manager's module. */
export const certManagerFolder = (): Promise<string> =>
  moduleFolder("github.com/cert-manager/cert-manager@v1.21.2");

/** Installs the kind of cert-manager's requests, by its own manifest. */
export async function installRequests(plane: ControlPlane): Promise<void> {
  const folder = await certManagerFolder();
  await applyFile(plane, join(folder, "deploy/crds/cert-manager.io_certificaterequests.yaml"));
  await untilServed(plane, "cert-manager.io/v1/certificaterequests");
}

/** Installs what the manifests have: kinds, rights, an issuer of the cluster; and a second tenant. */
async function install(plane: ControlPlane): Promise<void> {
  await installRequests(plane);
  for (const name of ["crds", "signer-cert-manager"]) {
    await applyManifest(plane, `components/signer-cert-manager/${name}.yaml`);
  }
  await untilServed(plane, "rampart.dev/v1/rampartclusterissuers");
  await applyManifest(plane, "components/signer-cert-manager/issuer.yaml");
  const metadata = { name: "pay" };
  await plane.call("POST", "/api/v1/namespaces", { metadata }).catch(() => undefined);
}

type Changes = Parameters<typeof certManagerRequestJson>[1];

let count = 0;

/** Creates a request with the `username` that cert-manager's webhook would write. @returns Its name. */
export async function request(
  { call }: ControlPlane,
  csrPem: string,
  namespace: string,
  spec: object = {},
): Promise<string> {
  const name = `cr-${++count}`;
  const { metadata, spec: whole } = certManagerRequestJson(csrPem, {
    metadata: { namespace, name },
    spec,
  } as Changes);
  const { uid: _, ...named } = metadata;
  await call("POST", collection(namespace), {
    apiVersion: "cert-manager.io/v1",
    kind: "CertificateRequest",
    metadata: named,
    spec: whole,
  });
  return name;
}

/** Sets a condition as an approver does. */
export async function decide(
  { call }: ControlPlane,
  namespace: string,
  name: string,
  type: "Approved" | "Denied",
): Promise<void> {
  const path = `${collection(namespace)}/${name}`;
  const condition = { type, status: "True", reason: "ByTheSuite", message: "" };
  await call("PUT", `${path}/status`, {
    ...(await call("GET", path)),
    status: { conditions: [condition] },
  });
}

interface Status {
  readonly certificate?: string;
  readonly ca?: string;
  readonly failureTime?: string;
  readonly conditions?: readonly { type: string; status: string; reason: string }[];
}

const statusOf = async ({ call }: ControlPlane, namespace: string, name: string): Promise<Status> =>
  ((await call("GET", `${collection(namespace)}/${name}`))["status"] ?? {}) as Status;

const readyOf = ({ conditions = [] }: Status): string =>
  conditions.find(({ type }) => type === "Ready")?.reason ?? "";

async function outcomeOf(plane: ControlPlane, namespace: string, name: string): Promise<Status> {
  let status: Status = {};
  await until(`${namespace}/${name} has no answer`, async () => {
    status = await statusOf(plane, namespace, name);
    return /^(?:Issued|Failed|Denied)$/.test(readyOf(status));
  });
  return status;
}

export async function approvedRequest(
  ...[plane, csr, namespace, spec]: Parameters<typeof request>
) {
  const name = await request(plane, csr, namespace, spec);
  await decide(plane, namespace, name, "Approved");
  return outcomeOf(plane, namespace, name);
}

/** Creates an issuer of a namespace, for which cert-manager's approver may not approve: a person decides. */
export async function createOwnIssuer({ call }: ControlPlane, namespace: string): Promise<void> {
  await call("POST", `/apis/rampart.dev/v1/namespaces/${namespace}/rampartissuers`, {
    apiVersion: "rampart.dev/v1",
    kind: "RampartIssuer",
    metadata: { name: "ours" },
    spec: { signerName },
  });
}

export const csrFor = async (namespace: string, account: string) =>
  (
    await emptyCsr("P-256", [
      { type: "url", value: `spiffe://cluster.local/ns/${namespace}/sa/${account}` },
    ])
  ).pem;

export const textOf = (base64 = ""): string => Buffer.from(base64, "base64").toString();

/** How many certificates the CA has issued with a name. */
export const issuedTo = ({ log }: ServedCa, name: string): number =>
  log.audits.filter(
    ({ outcome, ...event }) => outcome === "issued" && JSON.stringify(event).includes(name),
  ).length;

const signatures = ({ ca }: SignerScene): number =>
  ca.log.audits.filter(
    ({ event, outcome }) => event === "create-certificate" && outcome === "issued",
  ).length;

export async function withCertManager(
  { plane, folder }: Scene,
  play: (scene: SignerScene) => Promise<void>,
): Promise<void> {
  const scene = await setSignerScene(plane, folder, signers);
  await install(plane);
  try {
    const { log } = await scene.start(ofCertManager);
    await play(scene).catch((error: unknown) => {
      console.error(JSON.stringify(log.operations.slice(-20)));
      throw error;
    });
  } finally {
    await scene.end();
  }
}

async function survivesAnUpdate(scene: Scene): Promise<void> {
  const { plane } = scene;
  const csr = await csrFor("shop", "web");
  await withCertManager(scene, async (signing) => {
    const names = await Promise.all(Array.from({ length: 40 }, () => request(plane, csr, "shop")));
    await Promise.all(names.map((each) => decide(plane, "shop", each, "Approved")));
    await plane.restart();
    for (const each of names) assert.equal(readyOf(await outcomeOf(plane, "shop", each)), "Issued");
    assert.equal(signatures(signing), 40, "one signature for each request");
  });
}

const LOG_ORIGIN = "log.test/signers";

/** The serial numbers of the certificates that a CA's log has by a token. */
async function loggedSerials({ server, storeDirectory }: SignerScene["ca"]): Promise<string[]> {
  await server.close(1000);
  const log = join(storeDirectory, "log", encodeURIComponent(LOG_ORIGIN));
  const entries = join(log, "0/public/tile/entries/000.p");
  const widths = (await readdir(entries)).map(Number);
  const width = Math.max(...widths);
  return Tile.parseBundle(await readFile(join(entries, String(width))), width)
    .map((entry) => LogEntry.parse(entry))
    .flatMap((entry) => (entry.kind === "certificate" && entry.proof === "token" ? [entry] : []))
    .map(({ certificate }) => new X509Certificate(certificate).serialNumber);
}

/** Gives the signer's account its rights to write the status of requests, or takes them. */
async function changeStatusRights({ call }: ControlPlane, mayWrite: boolean): Promise<void> {
  for (const [name, group, kind] of [
    ["rampart-signer-cert-manager", "cert-manager.io", "certificaterequests"],
    ["rampart-signer", "certificates.k8s.io", "podcertificaterequests"],
  ] as const) {
    const path = `/apis/rbac.authorization.k8s.io/v1/clusterroles/${name}`;
    const role = await call("GET", path);
    const isStatus = ({ resources }: { readonly resources: readonly string[] }): boolean =>
      resources.includes(`${kind}/status`);
    const rules = (role["rules"] as { resources: string[] }[]).filter((each) => !isStatus(each));
    const status = { apiGroups: [group], resources: [`${kind}/status`], verbs: ["patch"] };
    await call("PUT", path, { ...role, rules: [...rules, ...(mayWrite ? [status] : [])] });
    const user = "system:serviceaccount:istio-system:rampart-signer";
    const asked = { group, resource: kind, subresource: "status", verb: "patch" };
    await until("the authorizer has the former rights", async () => {
      const review = { spec: { user, resourceAttributes: { ...asked, namespace: "shop" } } };
      const reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
      const { status: answer } = await call("POST", reviews, review);
      return (answer as { allowed: boolean }).allowed === mayWrite;
    });
  }
}

/** Its statuses cannot be written, so each kill comes between the CA's answer and the status. */
async function survivesKills({ plane, folder, web }: Scene): Promise<void> {
  const values = { LOG_ORIGIN, LOG_INTERVAL: "1s" };
  const scene = await setSignerScene(plane, folder, signers, values);
  const pod = { ...web, node: "node-1" };
  const all = ofCertManager.map((each) => ({ ...each, pods: { namespaces: ["shop"] } }));
  try {
    await install(plane);
    await changeStatusRights(plane, false);
    const name = await request(plane, await csrFor("shop", "web"), "shop");
    await decide(plane, "shop", name, "Approved");
    const stub = { stubPKCS10Request: await stubRequest("ECDSAP256") };
    const podRequest = await requestAs(plane, "node-1", pod, stub);
    for (const count of [2, 4]) {
      const killed = await scene.launch(all);
      await until("the CA has not answered", async () => signatures(scene) >= count);
      killed.send("SIGKILL");
      await killed.ended;
    }
    await changeStatusRights(plane, true);
    await scene.launch(all);
    const status = await outcomeOf(plane, "shop", name);
    const { certificateChain = "" } = await answered(plane, pod, podRequest);
    const written = [textOf(status.certificate), certificateChain].map(
      (pem) => new X509Certificate(pem).serialNumber,
    );
    assert.equal(new Set(written).size, 2);
    assert.deepEqual((await loggedSerials(scene.ca)).toSorted(), written.toSorted());
  } finally {
    await scene.end();
  }
}

/** The rows on CertificateRequests, with the rights of deploy/kustomize/components/signer-cert-manager, too. */
export const certManagerRows: readonly Row<Scene>[] = [
  ["cert-manager's requests through an update of the API server", survivesAnUpdate],
  ["cert-manager's requests, and a pod's: a signer is killed before each status", survivesKills],
];
