import assert from "node:assert/strict";
import { join } from "node:path";
import type { ServedCa } from "../../../testkit/ca/served-ca.ts";
import {
  certManagerRequestJson,
  emptyCsr,
} from "../../../testkit/kubernetes/certificate-requests.ts";
import { until } from "../../../testkit/time/until.ts";
import type { Row } from "../../outcome-table.ts";
import type { ControlPlane } from "../cluster/control-plane.ts";
import { applyFile, applyManifest, moduleFolder, untilServed } from "../cluster/manifests.ts";
import type { Scene } from "../cluster/scene.ts";
import { type SignerScene, setSignerScene, signerName } from "./signer-scene.ts";

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

/** The rows on CertificateRequests, with the rights of deploy/kustomize/components/signer-cert-manager, too. */
export const certManagerRows: readonly Row<Scene>[] = [
  ["cert-manager's requests through an update of the API server", survivesAnUpdate],
];
