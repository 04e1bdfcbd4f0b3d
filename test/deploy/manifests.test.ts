import { globSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { DistributeConfiguration } from "../../src/node/distribute/distribute.ts";
import { GatewayConfiguration } from "../../src/node/gateway/gateway-configuration.ts";
import { ServeConfiguration } from "../../src/node/serve/serve-configuration.ts";
import { SignerConfiguration } from "../../src/node/signer/signer-configuration.ts";
import { randomKek } from "../testkit/configuration.ts";
import { configurationIn, type Manifest, manifestsIn, read } from "./deploy-files.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));

describe.each([
  "deploy/kustomize/base/serve/serve.yaml",
  "deploy/kustomize/base/gateway/gateway.yaml",
])("%s", (path) => {
  test("runs without root, privileges, a writable root or a role", () => {
    const manifests = manifestsIn(path);
    expect(manifests.map(({ kind }) => kind).join()).not.toMatch(/Role/);
    const [pod, ...others] = manifests.flatMap(({ spec }) => spec?.template?.spec ?? []);
    expect(others).toEqual([]);
    expect(pod).toMatchObject({
      automountServiceAccountToken: false,
      securityContext: { runAsNonRoot: true, seccompProfile: { type: "RuntimeDefault" } },
    });
    for (const { securityContext } of pod?.containers ?? []) {
      expect(securityContext).toEqual({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ["ALL"] },
      });
    }
  });
});

test("no program mounts a single file of a ConfigMap, which would never change under it", () => {
  const files = globSync("deploy/{kustomize,helm}/**/*.{yaml,tpl}", { cwd: root });
  expect(files.length).toBeGreaterThan(10);
  expect(files.filter((path) => read(path).includes("subPath"))).toEqual([]);
});

test("the manifests' configurations are ones that the programs take", () => {
  const serve = {
    ...configurationIn("deploy/kustomize/base/serve/serve.yaml"),
    KEK: randomKek(),
  };
  expect(() => ServeConfiguration.parse(serve)).not.toThrow();
  expect(() =>
    GatewayConfiguration.parse(configurationIn("deploy/kustomize/base/gateway/gateway.yaml")),
  ).not.toThrow();
});

describe("deploy/kustomize/base/import/import.yaml", () => {
  const manifests = manifestsIn("deploy/kustomize/base/import/import.yaml");

  test("is a job without root, privileges, a writable root, a token or a role", () => {
    expect(manifests.map(({ kind }) => kind)).toEqual(["ServiceAccount", "ConfigMap", "CronJob"]);
    expect(manifests.at(-1)?.spec).toMatchObject({
      concurrencyPolicy: "Forbid",
      jobTemplate: {
        spec: {
          backoffLimit: 0,
          template: {
            spec: {
              automountServiceAccountToken: false,
              restartPolicy: "Never",
              securityContext: { runAsNonRoot: true, seccompProfile: { type: "RuntimeDefault" } },
              containers: [
                {
                  securityContext: {
                    allowPrivilegeEscalation: false,
                    readOnlyRootFilesystem: true,
                    capabilities: { drop: ["ALL"] },
                  },
                },
              ],
            },
          },
        },
      },
    });
  });

  test("has an image with the wrangler that the tests use", () => {
    const { devDependencies } = JSON.parse(read("package.json"));
    expect(read("deploy/import.Dockerfile")).toContain(` wrangler@${devDependencies.wrangler}\n`);
  });
});

describe("deploy/kustomize/base/signer/signer.yaml", () => {
  const path = "deploy/kustomize/base/signer/signer.yaml";
  const signerOf = (object: Manifest) =>
    JSON.stringify(object).match(/mesh\.example\.com.workload/g);

  test("configures the program, for the signer name of its rights", () => {
    const environment = { KUBERNETES_SERVICE_HOST: "10.0.0.1" };
    expect(SignerConfiguration.parse(configurationIn(path), environment)).toMatchObject({
      apiServer: { server: "https://10.0.0.1:443" },
      lease: { namespace: "istio-system", name: "rampart-signer" },
      signers: [{ name: "mesh.example.com/workload" }],
    });
    const roles = manifestsIn(path).filter(({ kind }) => kind === "ClusterRole");
    expect(roles.map(signerOf)).toEqual([["mesh.example.com/workload"]]);
  });

  test("reads no secret, and writes nothing but answers and its lease", () => {
    const roles = manifestsIn(path).filter(({ kind }) => /^(Cluster)?Role$/.test(kind));
    const rules = roles.flatMap((role) => (role as unknown as { rules: Rule[] }).rules);
    const writing = rules.filter(
      ({ verbs }) => !verbs.every((verb) => /^(list|watch)$/.test(verb)),
    );
    expect(writing.flatMap(({ resources }) => resources)).toEqual([
      "podcertificaterequests/status",
      "signers",
      "leases",
      "leases",
    ]);
    expect(JSON.stringify(rules)).not.toMatch(/secrets|\*|approv|certificatesigningrequests/);
  });

  test("approves, and sees what services request, by a component alone, for the same account and name", () => {
    const [role, binding] = manifestsIn(
      "deploy/kustomize/components/signer-services/signer-services.yaml",
    );
    expect(role && signerOf(role)).toEqual(["mesh.example.com/workload"]);
    expect(role).toMatchObject({
      rules: [
        { resources: ["certificatesigningrequests"], verbs: ["list", "watch"] },
        {
          resources: ["certificatesigningrequests/approval", "certificatesigningrequests/status"],
          verbs: ["patch"],
        },
        { resources: ["signers"], verbs: ["approve"] },
      ],
    });
    expect(binding).toMatchObject({
      subjects: [{ name: "rampart-signer", namespace: "istio-system" }],
    });
  });
});

describe("deploy/kustomize/components/signer-cert-manager", () => {
  const path = "deploy/kustomize/components/signer-cert-manager";

  test("sees requests and issuers, writes their status alone, and approves nothing", () => {
    const [role, binding] = manifestsIn(`${path}/signer-cert-manager.yaml`);
    const issuers = ["rampartissuers", "rampartclusterissuers"];
    expect((role as unknown as { rules: Rule[] }).rules).toEqual([
      {
        apiGroups: ["cert-manager.io"],
        resources: ["certificaterequests"],
        verbs: ["list", "watch"],
      },
      {
        apiGroups: ["cert-manager.io"],
        resources: ["certificaterequests/status"],
        verbs: ["patch"],
      },
      { apiGroups: ["rampart.dev"], resources: issuers, verbs: ["list", "watch"] },
      {
        apiGroups: ["rampart.dev"],
        resources: issuers.map((each) => `${each}/status`),
        verbs: ["patch"],
      },
    ]);
    expect(binding).toMatchObject({
      subjects: [{ name: "rampart-signer", namespace: "istio-system" }],
    });
  });

  test("has the kinds of the program, which the chart brings too", () => {
    const kinds = manifestsIn(`${path}/crds.yaml`).map(
      ({ spec }) => spec as unknown as { group: string; names: { kind: string; plural: string } },
    );
    expect(kinds.map(({ group, names }) => `${names.kind} ${names.plural}.${group}`)).toEqual([
      "RampartIssuer rampartissuers.rampart.dev",
      "RampartClusterIssuer rampartclusterissuers.rampart.dev",
    ]);
    expect(read("deploy/helm/rampart/cert-manager/crds.yaml")).toBe(read(`${path}/crds.yaml`));
  });
});

interface Rule {
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
}

describe("deploy/kustomize/base/distribute/distribute.yaml", () => {
  const path = "deploy/kustomize/base/distribute/distribute.yaml";

  test("configures the program", () => {
    const environment = { KUBERNETES_SERVICE_HOST: "10.0.0.1" };
    expect(DistributeConfiguration.parse(configurationIn(path), environment)).toMatchObject({
      places: { server: "https://10.0.0.1:443", configMap: "istio-ca-root-cert" },
    });
  });
});

test.each([
  "deploy/kustomize/base/distribute/distribute.yaml",
  "deploy/kustomize/components/gateway-roots/gateway-roots.yaml",
])(
  "%s lets see namespaces and the ConfigMaps of roots and CRLs, delete nothing, and read no secret",
  (path) => {
    const roles = manifestsIn(path).filter(({ kind }) => kind === "ClusterRole");
    expect(roles).toMatchObject([
      {
        rules: [
          { resources: ["namespaces"], verbs: ["list", "watch"] },
          {
            resources: ["configmaps"],
            resourceNames: ["istio-ca-root-cert", "istio-ca-crl"],
            verbs: ["list", "watch", "create", "patch"],
          },
        ],
      },
    ]);
  },
);

test("the rights to keep roots are bound to the gateway's account", () => {
  const manifests = manifestsIn("deploy/kustomize/components/gateway-roots/gateway-roots.yaml");
  const accounts = manifestsIn("deploy/kustomize/base/gateway/gateway.yaml").filter(
    ({ kind }) => kind === "ServiceAccount",
  );
  expect(accounts).toMatchObject([{ metadata: { name: "rampart-gateway" } }]);
  expect(manifests.filter(({ kind }) => kind === "ClusterRoleBinding")).toMatchObject([
    { subjects: [{ name: "rampart-gateway", namespace: "istio-system" }] },
  ]);
});
