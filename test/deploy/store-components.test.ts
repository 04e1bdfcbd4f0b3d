import { parse as parseToml, TomlDate } from "smol-toml";
import { describe, expect, test } from "vitest";
import { ServeConfiguration } from "../../src/node/serve/serve-configuration.ts";
import { read } from "../pages/page-files.ts";
import { randomKek } from "../testkit/configuration.ts";
import { manifestsIn } from "./deploy-files.ts";

/** The configuration of an overlay, whose date is one of TOML. */
function exampleOf(overlay: string): Record<string, unknown> {
  const text = read(`deploy/kustomize/overlays/${overlay}/rampart.toml`);
  const { INCEPTION_DATE, ...values } = parseToml(text);
  expect(INCEPTION_DATE).toBeInstanceOf(TomlDate);
  return { ...values, KEK: randomKek() };
}

describe("deploy/kustomize/components/kubernetes-store", () => {
  const folder = "deploy/kustomize/components/kubernetes-store";

  test("gives serve the Secrets of the namespace of records, and nothing else", () => {
    const manifests = manifestsIn(`${folder}/kubernetes-store.yaml`);
    expect(manifests.map(({ kind }) => kind)).toEqual(["Namespace", "Role", "RoleBinding"]);
    const [role] = manifests.filter(({ kind }) => kind === "Role");
    expect(role).toMatchObject({
      metadata: { namespace: "rampart-store" },
      rules: [
        {
          apiGroups: [""],
          resources: ["secrets"],
          verbs: ["get", "list", "watch", "create", "update", "delete"],
        },
      ],
    });
  });

  test("ends a replica after the others have its callers, and gives calls their time", () => {
    const [deployment] = manifestsIn(`${folder}/replicas.yaml`);
    expect(deployment?.spec).toMatchObject({
      replicas: 2,
      strategy: { type: "RollingUpdate", rollingUpdate: { maxUnavailable: 0 } },
      template: {
        spec: {
          // `serve` gives calls 25 seconds after SIGTERM.
          terminationGracePeriodSeconds: 45,
          containers: [{ lifecycle: { preStop: { sleep: { seconds: 10 } } } }],
        },
      },
    });
  });

  test("has an example whose configuration serve takes in a pod", () => {
    const environment = { KUBERNETES_SERVICE_HOST: "10.0.0.1" };
    expect(ServeConfiguration.parse(exampleOf("replicas"), environment)).toMatchObject({
      store: {
        kind: "kubernetes",
        namespace: "rampart-store",
        apiServer: { server: "https://10.0.0.1:443" },
      },
    });
  });
});

describe("deploy/kustomize/components/s3-store", () => {
  const folder = "deploy/kustomize/components/s3-store";

  test("gives serve a credential in a file, and no right in the cluster", () => {
    const manifests = ["disruption-budget", "replicas"].flatMap((name) =>
      manifestsIn(`${folder}/${name}.yaml`),
    );
    expect(manifests.map(({ kind }) => kind)).toEqual(["PodDisruptionBudget", "Deployment"]);
    expect(manifests[1]?.spec).toMatchObject({
      replicas: 2,
      strategy: { type: "RollingUpdate", rollingUpdate: { maxUnavailable: 0 } },
    });
    expect(read(`${folder}/replicas.yaml`)).not.toContain("automountServiceAccountToken");
  });

  test("has an example whose configuration serve takes, with the file that it mounts", () => {
    const values = exampleOf("bucket");
    expect(ServeConfiguration.parse(values)).toMatchObject({
      store: { kind: "s3", url: "https://mesh-ca.s3.eu-central-1.amazonaws.com" },
    });
    expect(values).toHaveProperty("S3_CREDENTIALS_FILE", "/etc/rampart-bucket/credentials");
    expect(read(`${folder}/replicas.yaml`)).toContain("mountPath: /etc/rampart-bucket");
  });
});
