import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parseAllDocuments } from "yaml";
import { runWell } from "../../../testkit/programs/child-process.ts";
import { succeeds, until } from "../../../testkit/time/until.ts";
import type { ControlPlane } from "./control-plane.ts";

const rbac = "/apis/rbac.authorization.k8s.io/v1";
/** `istio-system` stands for the namespace of the object. */
const places: Readonly<Record<string, string>> = {
  Namespace: "/api/v1/namespaces",
  ServiceAccount: "/api/v1/namespaces/istio-system/serviceaccounts",
  ConfigMap: "/api/v1/namespaces/istio-system/configmaps",
  ClusterRole: `${rbac}/clusterroles`,
  ClusterRoleBinding: `${rbac}/clusterrolebindings`,
  Role: `${rbac}/namespaces/istio-system/roles`,
  RoleBinding: `${rbac}/namespaces/istio-system/rolebindings`,
  Deployment: "/apis/apps/v1/namespaces/istio-system/deployments",
  CustomResourceDefinition: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
  RampartClusterIssuer: "/apis/rampart.dev/v1/rampartclusterissuers",
};

const appliedTo = new WeakMap<ControlPlane["call"], Set<string>>();

/** Creates every object of a manifest in deploy/kustomize, unless a row has done so before. */
export function applyManifest(plane: Pick<ControlPlane, "call">, name: string): Promise<void> {
  return applyFile(plane, join(import.meta.dirname, "../../../../deploy/kustomize", name));
}

/** {@link applyManifest} of a file anywhere. */
export async function applyFile({ call }: Pick<ControlPlane, "call">, file: string): Promise<void> {
  const applied = appliedTo.get(call) ?? new Set();
  appliedTo.set(call, applied);
  if (applied.has(file)) return;
  applied.add(file);
  for (const document of parseAllDocuments(await readFile(file, "utf8"))) {
    const object = document.toJS() as { kind: string; metadata: { namespace?: string } };
    const { namespace = "istio-system" } = object.metadata;
    await call("POST", places[object.kind]?.replace("istio-system", namespace) ?? "", object);
  }
}

/** The folder of a Go module of others, which has the manifests of their kinds. */
export async function moduleFolder(versioned: string): Promise<string> {
  const { Dir } = JSON.parse(await runWell("go", ["mod", "download", "-json", versioned]));
  return Dir;
}

/** Waits until an API server has taken up a kind: `group/version/plural`. */
export const untilServed = ({ call }: Pick<ControlPlane, "call">, kind: string): Promise<void> =>
  until(`there is no ${kind}`, () => succeeds(call("GET", `/apis/${kind}`)));
