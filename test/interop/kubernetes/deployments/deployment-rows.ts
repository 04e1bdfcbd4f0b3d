import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { parse as parseToml } from "smol-toml";
import { parse as parseYaml } from "yaml";
import { DistributeConfiguration } from "../../../../src/node/distribute/distribute.ts";
import { GatewayConfiguration } from "../../../../src/node/gateway/gateway-configuration.ts";
import { ServeConfiguration } from "../../../../src/node/serve/serve-configuration.ts";
import { SignerConfiguration } from "../../../../src/node/signer/signer-configuration.ts";
import { randomKek } from "../../../testkit/configuration.ts";
import { runWell } from "../../../testkit/programs/child-process.ts";
import { lastingFolder } from "../../../testkit/temporary-folder.ts";
import { type Outcome, playAll, playRows, type Row } from "../../outcome-table.ts";
import { fromGoProxy, required } from "../../software.ts";
import type { ControlPlane, Json } from "../cluster/control-plane.ts";
import { moduleFolder, untilServed } from "../cluster/manifests.ts";
import { findHelm } from "../cluster/programs.ts";
import { namedRows } from "../rows.ts";
import { operatorKinds } from "./operator-kinds.ts";
import {
  applyStrictly,
  buildKustomization,
  chartWith,
  essence,
  type KubernetesObject,
  refusalOf,
  renderChart,
  type Tools,
} from "./rendered.ts";
import { sharedStoreRows, withBucket, withSecrets } from "./shared-store-rows.ts";

const upstream = "https://ca.example.com";

const signer = {
  enabled: true,
  upstream,
  signers: [{ name: "mesh.example.com/workload", pods: { namespaces: ["*"] } }],
};

/** All of the chart, so that each template renders. */
const everything = {
  issuers: [{ issuer: "https://issuer.example.com", namespaces: ["*"] }],
  serve: {
    inceptionDate: "2026-12-31",
    plaintextPort: 15010,
    configuration: { LIMITS: { connections: 2000 }, MAX_WORKLOAD_CERT_TTL: "48h" },
  },
  gateway: { enabled: true, upstream, deliverRoots: true },
  distribute: { enabled: true, upstream, clusterTrustBundles: ["mesh.example.com/workload"] },
  signer: {
    ...signer,
    signers: [{ ...signer.signers[0], cert_manager: [{ namespaces: ["shop"] }] }],
  },
  monitoring: {
    serviceMonitor: { enabled: true, labels: { release: "prometheus" } },
    rules: { enabled: true, runbookUrl: "https://git.example.com/", labels: { release: "x" } },
    dashboard: { enabled: true },
  },
  networkPolicy: {
    enabled: true,
    monitoring: [{ namespaceSelector: { matchLabels: { name: "monitoring" } } }],
  },
};

const route = (host: string) => ({
  enabled: true,
  parentRefs: [{ name: "edge", namespace: "gateways", sectionName: "tls" }],
  hostnames: [host],
});

/** What the chart makes for Gateways of others, and for loads that change. */
const routed = {
  issuers: everything.issuers,
  serve: {
    inceptionDate: "2026-12-31",
    plaintextPort: 15010,
    configuration: { STORE: "kubernetes" },
    routes: { tls: route("ca.example.com"), grpc: route("grpc.example.com") },
    autoscaling: { enabled: true },
  },
  gateway: {
    enabled: true,
    upstream,
    routes: { tls: route("gateway.example.com") },
    autoscaling: { enabled: true },
  },
};

/** The values with which the chart makes what the bases have. */
const asInBases = {
  issuers: [{ issuer: "https://issuer.example.com" }],
  serve: { inceptionDate: "2026-12-31" },
  gateway: { enabled: true, upstream },
  distribute: { enabled: true, upstream },
  signer,
  podDisruptionBudget: { enabled: false },
  networkPolicy: { enabled: false },
};

const rows: readonly Row<Tools>[] = [
  ["the chart, all of it, applied twice", appliesChart],
  ["the chart as `helm install` has it by default, applied", appliesDefaults],
  ["the example overlay of kustomize, applied", appliesOverlay],
  ...sharedStoreRows,
  ["the chart's objects are those of the bases", sameAsBases],
  ["the chart opens no monitoring port and approves nothing, unless asked", opensNothingUnasked],
  ["the chart's configurations are ones that the programs take", configuresPrograms],
  ["the chart replaces pods for keys that need a restart, and for no other", replacesPods],
  ["the chart carries the rules and the dashboard of deploy/observability", carriesObservability],
  ["a release's certificate names its own Service", namesOwnService],
  ["the chart's routes and autoscalers are ones that a cluster takes", routesAndScales],
  ["the chart refuses what cannot run", refusesValues],
  ["the chart takes the values of its first release, without any newer key", reusesValues],
  ["every object is one of Kubernetes 1.34 to 1.36", fitsSchemas],
];

/** Plays the chart and the bases of deploy/, with helm and kustomize from the module proxy. */
export async function playDeployments(
  plane: ControlPlane,
  server: string,
  part: string,
): Promise<Outcome[]> {
  const wanted = namedRows(rows, part);
  if (wanted.length === 0) return [];
  const names = { client: "helm and kustomize", server };
  return playAll(names, async () => {
    const helm = await required(findHelm());
    const module = "sigs.k8s.io/kustomize/kustomize/v5@v5.8.2";
    return playRows(names, wanted, { plane, helm, kustomize: await required(fromGoProxy(module)) });
  });
}

const namespace = "mesh-ca";

async function appliesChart({ plane, helm }: Tools): Promise<void> {
  for (const kind of operatorKinds) {
    await plane.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", kind);
  }
  await plane.call("POST", "/api/v1/namespaces", { metadata: { name: namespace } });
  const objects = await renderChart(helm, "mesh", namespace, everything);
  assert.deepEqual([...new Set(objects.map(({ kind }) => kind))].toSorted(), [
    ...["ClusterRole", "ClusterRoleBinding", "ConfigMap", "CustomResourceDefinition"],
    ...["Deployment", "NetworkPolicy"],
    ...["PersistentVolumeClaim", "PodDisruptionBudget", "PrometheusRule", "Role", "RoleBinding"],
    ...["Service", "ServiceAccount", "ServiceMonitor"],
  ]);
  for (const { plural } of operatorKinds.map(({ spec }) => spec.names))
    await untilServed(plane, `monitoring.coreos.com/v1/${plural}`);
  for (const object of [...objects, ...objects]) await applyStrictly(plane, object);
  const path = `/apis/apps/v1/namespaces/${namespace}/deployments`;
  const { items } = await plane.call("GET", path);
  assert.equal((items as unknown[]).length, 4);
  const ports = `/api/v1/namespaces/${namespace}/services/mesh`;
  const { spec } = await plane.call("GET", ports);
  const listed = (spec as { ports: { port: number }[] }).ports.map(({ port }) => port);
  assert.deepEqual(listed, [15012, 15010, 15014]);
}

async function appliesDefaults({ plane, helm }: Tools): Promise<void> {
  const { issuers, serve } = asInBases;
  const objects = await renderChart(helm, "plain", "default", { issuers, serve });
  for (const object of objects) await applyStrictly(plane, object);
}

async function appliesOverlay({ plane, kustomize }: Tools): Promise<void> {
  const objects = [
    ...(await buildKustomization(kustomize, "overlays/example")),
    ...(await buildKustomization(kustomize, "base/import")),
  ];
  for (const object of objects) await applyStrictly(plane, object);
  const configurations = objects.filter(({ kind }) => kind === "ConfigMap");
  assert.equal(configurations.length, 3);
  const [text] = configurations.flatMap(({ data }) => data?.["rampart.toml"] ?? []);
  assert.match(text ?? "", /^INCEPTION_DATE = /m);
}

async function sameAsBases({ helm, kustomize }: Tools): Promise<void> {
  const bases: KubernetesObject[] = [];
  for (const base of ["serve", "gateway", "distribute", "signer"]) {
    bases.push(...(await buildKustomization(kustomize, `base/${base}`)));
  }
  const isEqual = ({ kind }: KubernetesObject): boolean => kind !== "ConfigMap";
  const rendered = await renderChart(helm, "rampart", "istio-system", asInBases);
  assert.deepEqual(
    rendered.filter(isEqual).map(essence).toSorted(),
    bases.filter(isEqual).map(essence).toSorted(),
  );
}

async function opensNothingUnasked({ helm }: Tools): Promise<void> {
  const { podDisruptionBudget: _, networkPolicy: __, ...programs } = asInBases;
  const pods = { name: "mesh.example.com/pods", pods: { namespaces: ["*"] } };
  const services = { name: "mesh.example.com/services", services: [{ account: "shop/web" }] };
  const render = (values: object): Promise<readonly KubernetesObject[]> =>
    renderChart(helm, "rampart", "istio-system", { ...programs, ...values });
  const signing = (signers: readonly object[]) =>
    render({ signer: { ...everything.signer, signers } });
  const approving = (objects: readonly KubernetesObject[]): readonly unknown[] =>
    objects
      .flatMap(({ rules = [] }) => rules as readonly Rule[])
      .filter(({ verbs }) => verbs.includes("approve"))
      .flatMap(({ resourceNames }) => resourceNames);

  const objects = await signing([pods]);
  const portsOf = (rendered: readonly KubernetesObject[]): string =>
    rendered
      .filter(({ kind }) => kind === "Service")
      .map(({ metadata: { name }, spec }) => `${name} ${JSON.stringify(spec?.["ports"])}`)
      .join("\n");
  assert.doesNotMatch(portsOf(objects), /15014|signer|distribute/);
  assert.equal(portsOf(await render({ monitoring: { service: true } })).split("15014").length, 5);
  const policies = objects.filter(({ kind }) => kind === "NetworkPolicy");
  assert.equal(policies.length, 4);
  for (const { spec } of policies) {
    const { ingress } = spec as { ingress: readonly { ports: readonly { port: number }[] }[] };
    const monitoring = ingress.filter(({ ports }) => ports.some(({ port }) => port === 15014));
    assert.deepEqual(monitoring, [
      { ports: [{ protocol: "TCP", port: 15014 }], from: [{ podSelector: {} }] },
    ]);
  }
  assert.deepEqual(approving(objects), []);
  assert.doesNotMatch(JSON.stringify(objects), /certificatesigningrequests/);
  assert.deepEqual(approving(await signing([pods, services])), [services.name]);
}

interface Rule {
  readonly verbs: readonly string[];
  readonly resourceNames: readonly string[];
}

async function configuresPrograms({ helm }: Tools): Promise<void> {
  const objects = await renderChart(helm, "rampart", "istio-system", everything);
  const files = new Map(objects.flatMap(({ data }) => Object.entries(data ?? {})));
  const valuesOf = (file: string): Json => parseToml(files.get(file) ?? "");
  const environment = { KUBERNETES_SERVICE_HOST: "10.0.0.1" };
  const serve = ServeConfiguration.parse({ ...valuesOf("rampart.toml"), KEK: randomKek() });
  assert.equal(serve.limits.connections, 2000);
  GatewayConfiguration.parse(valuesOf("gateway.toml"), environment);
  DistributeConfiguration.parse(valuesOf("distribute.toml"), environment);
  SignerConfiguration.parse(valuesOf("signer.toml"), environment);
  assert.equal(files.size, 5);
}

async function replacesPods({ helm }: Tools): Promise<void> {
  const podsWith = async (configuration: object): Promise<Map<string, unknown>> => {
    const programs = { serve: { ...everything.serve, configuration } };
    const objects = await renderChart(helm, "rampart", "a", { ...everything, ...programs });
    const deployments = objects.filter(({ kind }) => kind === "Deployment");
    assert.equal(deployments.length, 4);
    return new Map(
      deployments.map(({ metadata, spec: { template } = {} }) => [metadata.name, template]),
    );
  };
  const before = await podsWith({ DIAGNOSTIC_RPCS: "monitoring" });
  const followed = { DIAGNOSTIC_RPCS: "monitoring", LIMITS: { connections: 2000 } };
  assert.deepEqual(await podsWith(followed), before);
  const others = await podsWith({ DIAGNOSTIC_RPCS: "everywhere" });
  const replaced = [...others].filter(([name, pod]) => !isDeepStrictEqual(pod, before.get(name)));
  assert.deepEqual(
    replaced.map(([name]) => name),
    ["rampart"],
  );
}

async function carriesObservability({ helm }: Tools): Promise<void> {
  const objects = await renderChart(helm, "mesh", namespace, everything);
  const read = (name: string): string =>
    readFileSync(join(import.meta.dirname, "../../../../deploy/observability", name), "utf8");
  const rule = objects.find(({ kind }) => kind === "PrometheusRule");
  const rules = read("rules.yaml").replaceAll("docs/", "https://git.example.com/docs/");
  assert.deepEqual(rule?.spec, parseYaml(rules));
  const dashboard = objects.find(({ metadata }) => metadata.name === "mesh-dashboard");
  const shown = JSON.parse(dashboard?.data?.["rampart.json"] ?? "{}");
  assert.deepEqual(shown, JSON.parse(read("dashboard.json")));
}

async function namesOwnService({ helm }: Tools): Promise<void> {
  const objects = await renderChart(helm, "mesh", "ca", asInBases);
  const of = (wanted: string) =>
    objects.find(({ kind, metadata }) => kind === wanted && metadata.name === "mesh");
  assert(of("Service"));
  assert.match(of("ConfigMap")?.data?.["rampart.toml"] ?? "", /"mesh\.ca\.svc"/);
}

/** The kinds of the Gateway API are those of its own module. */
async function routesAndScales({ plane, helm }: Tools): Promise<void> {
  const folder = await moduleFolder("sigs.k8s.io/gateway-api@v1.6.3");
  for (const plural of ["grpcroutes", "tlsroutes"]) {
    const kind = `config/crd/standard/gateway.networking.k8s.io_${plural}.yaml`;
    await applyStrictly(plane, parseYaml(await readFile(join(folder, kind), "utf8")));
    await untilServed(plane, `gateway.networking.k8s.io/v1/${plural}`);
  }
  const objects = await renderChart(helm, "routed", "default", routed);
  const of = (wanted: string) => objects.filter(({ kind }) => kind === wanted);
  const counts = ["TLSRoute", "GRPCRoute", "HorizontalPodAutoscaler"].map(
    (each) => of(each).length,
  );
  assert.deepEqual(counts, [2, 1, 2]);
  for (const object of objects) await applyStrictly(plane, object);
  for (const { spec } of of("Deployment")) assert(!("replicas" in (spec ?? {})));
  const [serve] = of("ConfigMap").flatMap(({ data }) => data?.["rampart.toml"] ?? []);
  assert.match(serve ?? "", /SERVING_NAMES = .*"ca\.example\.com"/);
}

async function refusesValues({ helm }: Tools): Promise<void> {
  const { issuers, serve } = asInBases;
  const cases: readonly (readonly [object, RegExp])[] = [
    [{ issuers }, /serve\.inceptionDate: set the UTC day of the first start/],
    [{ serve }, /issuers: name at least one issuer/],
    [{ issuers, serve: { inceptionDate: "today" } }, /inceptionDate/],
    [{ issuers, serve, gateway: { enabled: true } }, /gateway\.upstream: set the URL/],
    [{ issuers, serve, distribute: { enabled: true } }, /distribute\.upstream: set the URL/],
    [{ issuers, serve, signer: { enabled: true, upstream } }, /signer\.signers: name at least one/],
    [{ issuers, serve: { ...serve, plaintext: 1 } }, /plaintext/],
    [{ issuers, serve: { ...serve, replicas: 2 } }, /serve\.replicas: more than one takes/],
    [{ issuers, serve: { ...serve, replicas: 0 } }, /replicas/],
    [{ issuers, serve: { ...serve, autoscaling: { enabled: true } } }, /more than one takes/],
    [{ issuers, serve: { ...serve, routes: { tls: { enabled: true } } } }, /name parentRefs/],
    [{ issuers, serve: { ...serve, routes: { grpc: route("a.test") } } }, /serve\.plaintextPort/],
    [{ issuers, serve: { ...serve, storeNamespace: "rampart-store" } }, /storeNamespace/],
    [{ issuers, serve, image: { digest: "sha256:1" } }, /digest/],
    [{ issuers, serve, monitoring: { rules: { runbookUrl: "runbooks" } } }, /runbookUrl/],
  ];
  for (const [values, reason] of cases) assert.match(await refusalOf(helm, values), reason);
}

/** The values that the first chart had. Every other one is newer, and templates must do without it. */
const ofEveryProgram = "configuration environment resources";
const firstValues: Readonly<Record<string, string>> = {
  image: "repository tag digest pullPolicy pullSecrets",
  trustDomain: "",
  issuers: "",
  serve: `${ofEveryProgram} enabled inceptionDate servingNames kekSecret storage plaintextPort`,
  gateway: `${ofEveryProgram} enabled replicas upstream cluster deliverRoots`,
  distribute: `${ofEveryProgram} enabled upstream clusterTrustBundles`,
  signer: `${ofEveryProgram} enabled replicas upstream signers`,
  monitoring: "serviceMonitor",
  podDisruptionBudget: "enabled",
  networkPolicy: "enabled callers monitoring",
};

function withoutNewer(values: Json): Json {
  const kept = Object.entries(firstValues).map(([name, keys]) => {
    const value = values[name];
    const members = Object.entries(value as object).filter(([key]) =>
      keys.split(" ").includes(key),
    );
    return [name, keys === "" ? value : Object.fromEntries(members)];
  });
  return Object.fromEntries(kept);
}

async function reusesValues({ helm }: Tools): Promise<void> {
  const older = await chartWith(join(await lastingFolder(), "chart"), withoutNewer);
  const { runbookUrl: _, labels: __, ...rules } = everything.monitoring.rules;
  const unlabelled = { ...everything, monitoring: { ...everything.monitoring, rules } };
  for (const values of [asInBases, everything, unlabelled, routed, withSecrets, withBucket]) {
    const [before, now] = await Promise.all(
      [older, undefined].map((chart) => renderChart(helm, "mesh", namespace, values, chart)),
    );
    assert.deepEqual(before, now);
  }
}

async function fitsSchemas({ helm, kustomize }: Tools): Promise<void> {
  const objects = [
    ...(await renderChart(helm, "mesh", namespace, everything)),
    ...(await renderChart(helm, "replicas", namespace, withSecrets)),
    ...(await renderChart(helm, "bucket", namespace, withBucket)),
    ...(await renderChart(helm, "routed", namespace, routed)),
    ...(await buildKustomization(kustomize, "overlays/example")),
    ...(await buildKustomization(kustomize, "base/import")),
    ...(await buildKustomization(kustomize, "overlays/replicas")),
    ...(await buildKustomization(kustomize, "overlays/bucket")),
  ];
  // The kinds of the Prometheus operator and the Gateway API are not Kubernetes' own, and kinds of kinds are in another module.
  const others = /^(?:ServiceMonitor|PrometheusRule|TLSRoute|GRPCRoute|CustomResourceDefinition)$/;
  await checkSchemas(objects.filter(({ kind }) => !others.test(kind)));
}

/** Kubernetes' types, as its module of the API has them; the API server of the newest has taken every object. */
const versions = ["v0.34.13", "v0.35.10", "v0.36.6"];

const source = join(import.meta.dirname, "schema/main.go");
const cache = join(import.meta.dirname, "../../../../.interop/kubernetes-schemas");

/** Requires that each Kubernetes reads the objects, every field included, and refuses an unknown field. */
async function checkSchemas(objects: readonly KubernetesObject[]): Promise<void> {
  const [first] = objects.filter(({ kind }) => kind === "Deployment");
  const strange = { ...first, spec: { ...first?.spec, replica: 1 } };
  const input = [...objects, strange].map((object) => JSON.stringify(object)).join("\n");
  for (const version of versions) {
    const said = await runWell(await reader(version), [], { input });
    const [refused, read, ...more] = said.trimEnd().split("\n");
    assert.match(refused ?? "", /^refused: .*unknown field "spec\.replica"/, version);
    assert.deepEqual([read, ...more], [`read: ${objects.length}`], version);
  }
}

/** Builds the reader with the types of one version, once for each of its sources. */
async function reader(version: string): Promise<string> {
  const digest = createHash("sha256")
    .update(await readFile(source))
    .digest("hex");
  const folder = join(cache, `${version}-${digest.slice(0, 12)}`);
  const program = join(folder, "reader");
  if (existsSync(program)) return program;
  await mkdir(folder, { recursive: true });
  await copyFile(source, join(folder, "main.go"));
  await writeFile(
    join(folder, "go.mod"),
    `module rampart.interop/schema

go 1.25

require (
	k8s.io/api ${version}
	k8s.io/apimachinery ${version}
)
`,
  );
  const options = { folder, environment: { GOFLAGS: "-mod=mod" }, timeoutSeconds: 600 };
  await runWell("go", ["build", "-o", "reader", "."], options);
  return program;
}
