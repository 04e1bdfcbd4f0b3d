import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { runSigner } from "../../../../src/node/signer/signer.ts";
import { SignerConfiguration } from "../../../../src/node/signer/signer-configuration.ts";
import { serveCa, servedName } from "../../../testkit/ca/served-ca.ts";
import { emptyCsr } from "../../../testkit/kubernetes/certificate-requests.ts";
import { createEventRecorder } from "../../../testkit/log/event-recorder.ts";
import { runWell } from "../../../testkit/programs/child-process.ts";
import { until } from "../../../testkit/time/until.ts";
import { createAccount, mint, rule } from "../cluster/accounts.ts";
import { type ControlPlane, type Json, nodeToken } from "../cluster/control-plane.ts";
import { applyManifest } from "../cluster/manifests.ts";
import type { Pod } from "../cluster/scene.ts";

export interface ScenePod extends Pod {
  readonly node: string;
}

/** The signer name of deploy/kustomize/base/signer/signer.yaml. */
export const signerName = "mesh.example.com/workload";

const credential = "CLUSTER_CREDENTIAL_SIGNERS";

/** A CA whose table names the account of deploy/kustomize/base/signer/signer.yaml, and as many signers as a test wants. */
export type SignerScene = Awaited<ReturnType<typeof setSignerScene>>;

interface Readiness {
  readonly leading: boolean;
}

export async function setSignerScene(plane: ControlPlane, folder: string, changes: object = {}) {
  await applyManifest(plane, "base/signer/signer.yaml");
  const reviewer = await reviewerToken(plane);
  const ca = await serveCa({
    SERVING_NAMES: [servedName, "localhost"],
    ISSUERS: [
      {
        issuer: plane.issuer,
        cluster: "prod-1",
        cluster_signers: [
          {
            account: "istio-system/rampart-signer",
            namespaces: ["shop"],
            dns_names: ["*.shop.svc"],
          },
        ],
        kubernetes: { server: plane.server, ca: plane.ca, credential, review: "instead-of-keys" },
        ...changes,
      },
    ],
    [credential]: reviewer,
  });
  const file = (name: string): string => join(folder, name);
  await writeFile(file("ca.crt"), plane.ca);
  await writeFile(file("bundle.pem"), await ca.bundle());
  const own = (audiences: string[]) => mint(plane, "istio-system", "rampart-signer", { audiences });
  await writeFile(file("signer-token"), await own([]));
  await writeFile(file("signer-ca-token"), await own(["istio-ca"]));
  const running: Awaited<ReturnType<typeof runSigner>>[] = [];
  const keys = {
    UPSTREAM: `https://localhost:${ca.port}`,
    UPSTREAM_CA_FILE: file("bundle.pem"),
    TOKEN_FILE: file("signer-ca-token"),
    CLUSTER: "prod-1",
    KUBERNETES_SERVER: plane.server,
    KUBERNETES_CA_FILE: file("ca.crt"),
    KUBERNETES_TOKEN_FILE: file("signer-token"),
    MONITORING_LISTEN: "127.0.0.1:0",
  };
  return {
    ca,
    start: async (SIGNERS: readonly object[]) => {
      const configuration = SignerConfiguration.parse({ ...keys, SIGNERS }, {});
      const log = createEventRecorder();
      const listener = await runSigner(configuration, { log, clock: () => new Date() });
      running.push(listener);
      const url = `http://127.0.0.1:${listener.monitoringAddress.port}/readyz`;
      const readiness = async () => (await fetch(url)).json() as Promise<Readiness>;
      return { log, readiness, end: () => listener.close(1000) };
    },
    end: async () => {
      for (const listener of running) await listener.close(1000);
      await ca.end();
    },
  };
}

const reviewers = new WeakMap<ControlPlane, Promise<string>>();

function reviewerToken(plane: ControlPlane): Promise<string> {
  const rules = [rule("authentication.k8s.io", ["tokenreviews"], ["create"])];
  const reviewer = reviewers.get(plane) ?? createAccount(plane, "signer-reviewer", rules);
  reviewers.set(plane, reviewer);
  return reviewer;
}

/** The kinds of key of a pod certificate. */
const keyKinds = { ECDSAP256: "P-256", RSA3072: "RSA-3072", ED25519: "Ed25519" } as const;

/** The CSR that a kubelet makes for a pod, as a request has it. */
export async function stubRequest(kind: keyof typeof keyKinds): Promise<string> {
  const { base64 } = await emptyCsr(keyKinds[kind]);
  return base64;
}

const uidOf = ({ metadata }: Json): string => (metadata as { uid: string }).uid;

/** Requests a certificate for a pod with the credentials of a node, as its kubelet does. */
export async function requestAs(
  plane: ControlPlane,
  node: string,
  pod: ScenePod,
  spec: object,
): Promise<string> {
  const { call, callAs } = plane;
  const { namespace, account, name, uid } = pod;
  const accountPath = `/api/v1/namespaces/${namespace}/serviceaccounts/${account}`;
  const created = await callAs(nodeToken(node))(
    "POST",
    `${plane.certificates}/namespaces/${namespace}/podcertificaterequests`,
    {
      apiVersion: plane.certificates.replace("/apis/", ""),
      kind: "PodCertificateRequest",
      metadata: { generateName: "req-" },
      spec: {
        signerName,
        podName: name,
        podUID: uid,
        serviceAccountName: account,
        serviceAccountUID: uidOf(await call("GET", accountPath)),
        nodeName: node,
        nodeUID: uidOf(await call("GET", `/api/v1/nodes/${node}`)),
        maxExpirationSeconds: 86_400,
        ...spec,
      },
    },
  );
  const { metadata } = created;
  const requested = (metadata as { name: string }).name;
  // The node authorizer learns of a request by a watch of its own, and refuses its node until then.
  await until(`${node} may not read ${requested}`, () =>
    statusOf(plane, { ...pod, node }, requested).then(() => true, unlessForbidden),
  );
  return requested;
}

/** @throws Whatever was thrown, unless the API server has forbidden the call. */
function unlessForbidden(error: unknown): false {
  if (error instanceof Error && error.message.includes(": 403 ")) return false;
  throw error;
}

/** The status of a request. */
export interface PodCertificateStatusJson {
  readonly conditions?: readonly { readonly type: string; readonly reason: string }[];
  readonly certificateChain?: string;
  readonly notBefore?: string;
  readonly notAfter?: string;
  readonly beginRefreshAt?: string;
}

async function statusOf(
  { callAs, certificates }: ControlPlane,
  { namespace, node }: ScenePod,
  name: string,
): Promise<PodCertificateStatusJson> {
  const path = `${certificates}/namespaces/${namespace}/podcertificaterequests/${name}`;
  const { status = {} } = await callAs(nodeToken(node))("GET", path);
  return status as PodCertificateStatusJson;
}

/** Waits for the answer to a request, as its kubelet does. */
export async function answered(
  plane: ControlPlane,
  pod: ScenePod,
  name: string,
): Promise<PodCertificateStatusJson> {
  let status: PodCertificateStatusJson = {};
  await until(`${name} has no answer`, async () => {
    status = await statusOf(plane, pod, name);
    return (status.conditions ?? []).length > 0;
  });
  return status;
}

/** The one condition of an answer, and its reason. */
export function conditionOf({ conditions = [] }: PodCertificateStatusJson): string {
  assert.equal(conditions.length, 1);
  return conditions.map(({ type, reason }) => `${type} ${reason}`).join();
}

/** The leaf of a chain that OpenSSL verifies by the roots. */
export async function verified(
  folder: string,
  pem: string,
  roots: string,
): Promise<X509Certificate> {
  const [leaf, bundle] = [join(folder, "leaf.pem"), join(folder, "roots.pem")];
  await Promise.all([writeFile(leaf, pem), writeFile(bundle, roots)]);
  await runWell("openssl", ["verify", "-x509_strict", "-CAfile", bundle, leaf]);
  return new X509Certificate(pem);
}
