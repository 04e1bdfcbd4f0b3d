import { describe, expect, test } from "vitest";
import { DistributeConfiguration } from "../../src/node/distribute/distribute.ts";
import { GatewayConfiguration } from "../../src/node/gateway/gateway-configuration.ts";
import { ServeConfiguration } from "../../src/node/serve/serve-configuration.ts";
import { SignerConfiguration } from "../../src/node/signer/signer-configuration.ts";
import { filesAt, read } from "../pages/page-files.ts";
import { randomKek } from "../testkit/configuration.ts";
import { configurationIn, type Manifest, manifestsIn } from "./deploy-files.ts";

const base = "deploy/kustomize/base";
const components = "deploy/kustomize/components";

/** What every pod has: neither root, privileges, a writable root nor a token of its account. */
const harmless = {
  automountServiceAccountToken: false,
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
};

/** Of each manifest, what makes pods, and its other kinds. */
test.each([
  [`${base}/serve/serve.yaml`, { template: { spec: harmless } }],
  [`${base}/gateway/gateway.yaml`, { template: { spec: harmless } }],
  [
    `${base}/import/import.yaml`,
    {
      concurrencyPolicy: "Forbid",
      jobTemplate: {
        spec: { backoffLimit: 0, template: { spec: { ...harmless, restartPolicy: "Never" } } },
      },
    },
  ],
])("%s runs without root, privileges, a writable root, a token or a role", (path, spec) => {
  const manifests = manifestsIn(path);
  expect(manifests.map(({ kind }) => kind).join()).not.toMatch(/Role/);
  const pods = manifests.filter(({ kind }) => /^(?:Deployment|StatefulSet|CronJob)$/.test(kind));
  expect(pods).toMatchObject([{ spec }]);
});

test("the import has an image with the wrangler that the tests use", () => {
  const { devDependencies } = JSON.parse(read("package.json"));
  expect(read("deploy/import.Dockerfile")).toContain(` wrangler@${devDependencies.wrangler}\n`);
});

test("no program mounts a single file of a ConfigMap, which would never change under it", () => {
  const files = filesAt("deploy/{kustomize,helm}/**/*.{yaml,tpl}");
  expect(files.length).toBeGreaterThan(10);
  expect(files.filter((path) => read(path).includes("subPath"))).toEqual([]);
});

test("the manifests' configurations are ones that the programs take", () => {
  const environment = { KUBERNETES_SERVICE_HOST: "10.0.0.1" };
  const apiServer = { server: "https://10.0.0.1:443" };
  const of = (program: string) => configurationIn(`${base}/${program}/${program}.yaml`);
  ServeConfiguration.parse({ ...of("serve"), KEK: randomKek() });
  GatewayConfiguration.parse(of("gateway"));
  expect(DistributeConfiguration.parse(of("distribute"), environment)).toMatchObject({
    places: { ...apiServer, configMap: "istio-ca-root-cert" },
  });
  expect(SignerConfiguration.parse(of("signer"), environment)).toMatchObject({
    apiServer,
    lease: { namespace: "istio-system", name: "rampart-signer" },
    signers: [{ name: "mesh.example.com/workload" }],
  });
});

describe("deploy/kustomize/base/signer/signer.yaml", () => {
  const path = `${base}/signer/signer.yaml`;
  const signerOf = (object: Manifest) =>
    JSON.stringify(object).match(/mesh\.example\.com.workload/g);

  test("has the rights of the signer name that it configures", () => {
    const roles = manifestsIn(path).filter(({ kind }) => kind === "ClusterRole");
    expect(roles.map(signerOf)).toEqual([["mesh.example.com/workload"]]);
  });

  test("reads no secret, and writes nothing but answers and its lease", () => {
    const roles = manifestsIn(path).filter(({ kind }) => /^(Cluster)?Role$/.test(kind));
    const rules = roles.flatMap(({ rules = [] }) => rules);
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
    const [role, binding] = manifestsIn(`${components}/signer-services/signer-services.yaml`);
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
  const path = `${components}/signer-cert-manager`;

  test("sees requests and issuers, writes their status alone, and approves nothing", () => {
    const [role, binding] = manifestsIn(`${path}/signer-cert-manager.yaml`);
    const issuers = ["rampartissuers", "rampartclusterissuers"];
    expect(role?.rules).toEqual(
      [
        ["cert-manager.io", ["certificaterequests"]] as const,
        ["rampart.dev", issuers] as const,
      ].flatMap(([group, resources]) => [
        { apiGroups: [group], resources, verbs: ["list", "watch"] },
        {
          apiGroups: [group],
          resources: resources.map((each) => `${each}/status`),
          verbs: ["patch"],
        },
      ]),
    );
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

test.each([`${base}/distribute/distribute.yaml`, `${components}/gateway-roots/gateway-roots.yaml`])(
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
  const manifests = manifestsIn(`${components}/gateway-roots/gateway-roots.yaml`);
  const accounts = manifestsIn(`${base}/gateway/gateway.yaml`).filter(
    ({ kind }) => kind === "ServiceAccount",
  );
  expect(accounts).toMatchObject([{ metadata: { name: "rampart-gateway" } }]);
  expect(manifests.filter(({ kind }) => kind === "ClusterRoleBinding")).toMatchObject([
    { subjects: [{ name: "rampart-gateway", namespace: "istio-system" }] },
  ]);
});
