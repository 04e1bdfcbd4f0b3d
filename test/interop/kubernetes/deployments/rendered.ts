import { cp, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parse, parseAllDocuments } from "yaml";
import { run, runWell } from "../../../testkit/programs/child-process.ts";
import type { ControlPlane, Json } from "../cluster/control-plane.ts";

const root = join(import.meta.dirname, "../../../..");
const chart = join(root, "deploy/helm/rampart");

/** A cluster, and the programs that render what `deploy/` has for it. */
export interface Tools {
  readonly plane: ControlPlane;
  readonly helm: string;
  readonly kustomize: string;
}

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

const templateWords = (release: string, namespace: string, folder = chart): string[] => [
  ...["template", release, folder, "--namespace", namespace, "--kube-version", "1.36.0"],
  ...["--values", "-"],
];

export async function renderChart(
  helm: string,
  release: string,
  namespace: string,
  values: object,
  folder: string = chart,
): Promise<readonly KubernetesObject[]> {
  const input = JSON.stringify(values);
  return objectsIn(await runWell(helm, templateWords(release, namespace, folder), { input }));
}

/** Copies the chart with other values by default, as `helm upgrade --reuse-values` has those of the older release. */
export async function chartWith(folder: string, values: (own: Json) => object): Promise<string> {
  await cp(chart, folder, { recursive: true });
  const file = join(folder, "values.yaml");
  await writeFile(file, JSON.stringify(values(parse(await readFile(file, "utf8")))));
  return folder;
}

export async function refusalOf(helm: string, values: object): Promise<string> {
  const input = JSON.stringify(values);
  const { exitCode, stderr } = await run(helm, templateWords("a", "b"), { input });
  return exitCode === 0 ? "nothing was refused" : stderr;
}

export const buildKustomization = async (
  kustomize: string,
  folder: string,
): Promise<readonly KubernetesObject[]> =>
  objectsIn(await runWell(kustomize, ["build", join(root, "deploy/kustomize", folder)]));

const clusterWide = /^(?:Namespace|ClusterRole|ClusterRoleBinding|CustomResourceDefinition)$/;

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

/** What an object does, without what names its release or its maker. */
export function essence({ kind, metadata, rules, subjects, spec }: KubernetesObject): string {
  const said = JSON.stringify({ kind, name: metadata.name, rules, subjects, spec });
  const { kind: _, ...plain } = JSON.parse(said, (key, value) => {
    if (/^(?:checksum\/restart-keys|imagePullPolicy|env|envFrom)$/.test(key)) return undefined;
    if (/^volume(?:s|Mounts)$/.test(key)) return value.toSorted(byName);
    const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
    return isObject ? Object.fromEntries(Object.entries(value).toSorted()) : value;
  });
  return `${kind} ${JSON.stringify(plain)}`;
}

/** The order of volumes means nothing, and kustomize has one of its own. */
const byName = (a: { readonly name: string }, b: { readonly name: string }): number =>
  a.name.localeCompare(b.name);
