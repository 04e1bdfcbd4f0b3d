import type { ControlPlane } from "./control-plane.ts";

type Caller = Pick<ControlPlane, "call">;

export const rule = (apiGroup: string, resources: string[], verbs: string[]): object => ({
  apiGroups: [apiGroup],
  resources,
  verbs,
});

/** Requests a token as the kubelet does. */
export async function mint(
  { call }: Caller,
  namespace: string,
  account: string,
  spec: object,
): Promise<string> {
  const path = `/api/v1/namespaces/${namespace}/serviceaccounts/${account}/token`;
  const { status } = await call("POST", path, { spec: { expirationSeconds: 3600, ...spec } });
  return (status as { token: string }).token;
}

/** Creates an account with exactly these rights in the cluster. @returns Its token. */
export async function createAccount(
  { call }: Caller,
  name: string,
  rules: readonly object[],
  namespace = "istio-system",
): Promise<string> {
  await call("POST", `/api/v1/namespaces/${namespace}/serviceaccounts`, { metadata: { name } });
  const rbac = "/apis/rbac.authorization.k8s.io/v1";
  await call("POST", `${rbac}/clusterroles`, { metadata: { name }, rules });
  await call("POST", `${rbac}/clusterrolebindings`, {
    metadata: { name },
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name },
    subjects: [{ kind: "ServiceAccount", name, namespace }],
  });
  return mint({ call }, namespace, name, { audiences: [] });
}
