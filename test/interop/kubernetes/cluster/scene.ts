import { createAccount, rule } from "./accounts.ts";
import type { ControlPlane } from "./control-plane.ts";

export interface Pod {
  readonly namespace: string;
  readonly account: string;
  readonly name: string;
  readonly uid: string;
}

/** From Kubernetes 1.37 on, a node may request only what a volume of the pod asks for. */
const podCertificates = ["ECDSAP256", "RSA3072", "ED25519"].map((keyType) => ({
  podCertificate: {
    signerName: "mesh.example.com/workload",
    keyType,
    credentialBundlePath: `${keyType}.pem`,
  },
}));

export async function createPod(
  { call }: ControlPlane,
  namespace: string,
  account: string,
  node: string,
): Promise<Pod> {
  const name = `${account}-${node}`;
  const pod = {
    metadata: { name },
    spec: {
      nodeName: node,
      serviceAccountName: account,
      containers: [{ name: "a", image: "a" }],
      volumes: [{ name: "certificates", projected: { sources: podCertificates } }],
    },
  };
  const created = await call("POST", `/api/v1/namespaces/${namespace}/pods`, pod);
  const { metadata } = created;
  const { uid } = metadata as { uid: string };
  return { namespace, account, name, uid };
}

/** A cluster with pods on two nodes, and the CA's access to it. */
export interface Scene {
  readonly plane: ControlPlane;
  readonly folder: string;
  readonly access: string;
  readonly web: Pod;
  readonly faraway: Pod;
  readonly ztunnel: Pod;
}

export async function setScene(plane: ControlPlane, folder: string): Promise<Scene> {
  const access = await grantAccess(plane);
  const { call } = plane;
  await call("POST", "/api/v1/namespaces", { metadata: { name: "shop" } });
  for (const name of ["node-1", "node-2"])
    await call("POST", "/api/v1/nodes", { metadata: { name } });
  for (const [namespace, name] of [
    ["shop", "web"],
    ["shop", "far"],
    ["istio-system", "ztunnel"],
  ]) {
    await call("POST", `/api/v1/namespaces/${namespace}/serviceaccounts`, { metadata: { name } });
  }
  return {
    plane,
    folder,
    access,
    web: await createPod(plane, "shop", "web", "node-1"),
    faraway: await createPod(plane, "shop", "far", "node-2"),
    ztunnel: await createPod(plane, "istio-system", "ztunnel", "node-1"),
  };
}

/** Creates the rights of docs/how-to/clusters.md for an account of the CA. */
async function grantAccess({ call }: ControlPlane): Promise<string> {
  await call("POST", "/api/v1/namespaces", { metadata: { name: "istio-system" } });
  return createAccount({ call }, "rampart", [
    rule("authentication.k8s.io", ["tokenreviews"], ["create"]),
    rule("", ["pods"], ["get", "list", "watch"]),
  ]);
}
