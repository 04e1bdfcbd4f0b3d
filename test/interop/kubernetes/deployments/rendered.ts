import { join } from "node:path";
import { parseAllDocuments } from "yaml";
import { run, runWell } from "../../programs.ts";
import type { ControlPlane, Json } from "../cluster/control-plane.ts";

const root = join(import.meta.dirname, "../../../..");
const chart = join(root, "deploy/helm/rampart");

/** An object of a manifest. */
export interface KubernetesObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly data?: Readonly<Record<string, string>>;
  readonly rules?: unknown;
  readonly subjects?: unknown;
  readonly spec?: Json;
}

const objectsIn = (yaml: string): readonly KubernetesObject[] =>
  parseAllDocuments(yaml)
    .map((document) => document.toJS() as KubernetesObject | null)
    .filter((object) => object !== null);

/** The words of `helm template` for a release. */
const templateWords = (release: string, namespace: string): string[] => [
  ...["template", release, chart, "--namespace", namespace, "--kube-version", "1.36.0"],
  ...["--values", "-"],
];

/** Renders the chart with values. */
export async function renderChart(
  helm: string,
  release: string,
  namespace: string,
  values: object,
): Promise<readonly KubernetesObject[]> {
  const input = JSON.stringify(values);
  return objectsIn(await runWell(helm, templateWords(release, namespace), { input }));
}

/** What helm says of values that the chart refuses. */
export async function refusalOf(helm: string, values: object): Promise<string> {
  const input = JSON.stringify(values);
  const { exitCode, stderr } = await run(helm, templateWords("a", "b"), { input });
  return exitCode === 0 ? "nothing was refused" : stderr;
}

/** Builds a folder of deploy/kustomize. */
export const buildKustomization = async (
  kustomize: string,
  folder: string,
): Promise<readonly KubernetesObject[]> =>
  objectsIn(await runWell(kustomize, ["build", join(root, "deploy/kustomize", folder)]));

const clusterWide = /^(?:Namespace|ClusterRole|ClusterRoleBinding)$/;

/** The plural of a kind, as it is in paths. */
const pluralOf = (kind: string): string => kind.toLowerCase().replace(/y$/, "ie").replace(/$/, "s");

/** Applies an object as `kubectl apply --server-side` does, and has the server refuse fields that it does not know. */
export async function applyStrictly(
  { call }: Pick<ControlPlane, "call">,
  object: KubernetesObject,
): Promise<void> {
  const { apiVersion, kind, metadata } = object;
  const group = apiVersion.includes("/") ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
  const scope = clusterWide.test(kind) ? "" : `/namespaces/${metadata.namespace}`;
  const name = encodeURIComponent(metadata.name);
  const options = "fieldManager=kubectl&force=true&fieldValidation=Strict";
  await call("PATCH", `${group}${scope}/${pluralOf(kind)}/${name}?${options}`, object);
}
