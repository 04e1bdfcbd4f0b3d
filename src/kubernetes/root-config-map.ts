import * as z from "zod/mini";
import { dnsLabel } from "../foundation/addresses.ts";
import { FetchError } from "../foundation/fetch.ts";
import type { NumberedBundle } from "../pki/authority/trust-bundle.ts";
import type { SendRequest } from "./client.ts";
import { type Listing, listPages } from "./list-pages.ts";

export interface HeldRoots {
  /** Empty where Istio would not read the ConfigMap. */
  readonly pem: string;
  /** From an annotation, like the time. A tenant may have changed both, so only the PEM proves a delivery. */
  readonly sequence: number | undefined;
  readonly deliveredAt: Date | undefined;
}

/** Istio's names: `PILOT_CA_CERT_CONFIGMAP`, label, key, exceptions (docs/explanation/istio.md#root-distribution). */
export const usualConfigMap = "istio-ca-root-cert";
/** Istio's fixed name for the ConfigMap with CRLs. What is said of roots here holds for it as well. */
export const crlConfigMap = "istio-ca-crl";

/** The most octets of PEM that a ConfigMap holds. An API server refuses an object of more than a MiB. */
export const maximumContentOctets = 1_000_000;

const label = "istio.io/config";
const excludedNamespaces: ReadonlySet<string> = new Set([
  "kube-public",
  "kube-node-lease",
  "local-path-storage",
]);

const dataKeyOf = (name: string): string =>
  name === crlConfigMap ? "ca-crl.pem" : "root-cert.pem";

const sequenceAnnotationOf = (name: string): string =>
  name === crlConfigMap ? "rampart.dev/crl-this-update" : "rampart.dev/spiffe-sequence";

const deliveredAtAnnotation = "rampart.dev/delivered-at";

/** Names go into paths and onto terminals. */
const namespaceName = z.string().check(z.regex(dnsLabel));

export const configMapName: z.ZodMiniType<string, string> = z.string().check(
  z.regex(/^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$/, "must be the name of a ConfigMap"),
  z.refine((name) => name !== crlConfigMap, "is the ConfigMap with CRLs"),
);

const namespaceForm = z.object({
  metadata: z.object({ name: namespaceName, deletionTimestamp: z.nullish(z.string()) }),
  status: z.prefault(z.object({ phase: z._default(z.string(), "") }), {}),
});

const texts = z.nullish(z.record(z.string(), z.string()));
const configMapForm = z.object({
  metadata: z.object({
    name: z.string(),
    namespace: namespaceName,
    labels: texts,
    annotations: texts,
  }),
  data: texts,
});

/** The name of a namespace, and whether Istio would give it roots; `undefined` for any other object. */
export function parseNamespace(object: unknown): readonly [string, boolean] | undefined {
  const parsed = namespaceForm.safeParse(object);
  if (!parsed.success) return undefined;
  const { metadata, status } = parsed.data;
  const isTerminating = status.phase === "Terminating" || Boolean(metadata.deletionTimestamp);
  return [metadata.name, !isTerminating && !excludedNamespaces.has(metadata.name)];
}

/** A namespace and the roots in its ConfigMap of this name; `undefined` for any other object. */
export function parseRootConfigMap(
  object: unknown,
  name: string,
): readonly [string, HeldRoots] | undefined {
  const parsed = configMapForm.safeParse(object);
  if (!parsed.success || parsed.data.metadata.name !== name) return undefined;
  const { metadata, data } = parsed.data;
  const { namespace, labels, annotations } = metadata;
  const held = {
    pem: labels?.[label] === "true" ? (data?.[dataKeyOf(name)] ?? "") : "",
    sequence: parseSequence(annotations?.[sequenceAnnotationOf(name)]),
    deliveredAt: parseInstant(annotations?.[deliveredAtAnnotation]),
  };
  return [namespace, held];
}

function parseSequence(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}

function parseInstant(text = ""): Date | undefined {
  const instant = new Date(text);
  const isValid = !Number.isNaN(instant.getTime());
  return isValid && instant.toISOString() === text ? instant : undefined;
}

/** Whether a namespace has this bundle. Annotations alone are no reason to write. */
export function holds(held: HeldRoots | undefined, { pem }: NumberedBundle): boolean {
  return held?.pem === pem;
}

export function rootConfigMap(
  name: string,
  namespace: string,
  { pem, sequence }: NumberedBundle,
  now: Date,
): object {
  const annotations = {
    [sequenceAnnotationOf(name)]: `${sequence}`,
    [deliveredAtAnnotation]: now.toISOString(),
  };
  return {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name, namespace, labels: { [label]: "true" }, annotations },
    data: { [dataKeyOf(name)]: pem },
  };
}

export function rootConfigMapPath(name: string, namespace: string): string {
  return `/api/v1/namespaces/${namespace}/configmaps/${name}`;
}

const maximumRequests = 400;

export const namespaceListing: Listing = {
  path: "/api/v1/namespaces",
  pageSize: 250,
  maximumRequests,
};

/** The ConfigMaps of this name in all namespaces; each holds a bundle. */
export function configMapListing(name: string): Listing {
  const path = `/api/v1/configmaps?fieldSelector=${encodeURIComponent(`metadata.name=${name}`)}`;
  return { path, pageSize: 100, maximumRequests };
}

/** The roots in the namespaces of a cluster, as a list found them. */
export interface ClusterRoots<Kept> {
  /** Those to which Istio would give roots; at least one. */
  readonly namespaces: readonly string[];
  readonly held: ReadonlyMap<string, Kept>;
}

/**
 * Lists a cluster's namespaces and its ConfigMaps of this name.
 *
 * @param keep Reduces the roots of a namespace to the part that the caller needs: bundles are large.
 * @throws FetchError for an API server that does not list, or that lists no namespace.
 */
export async function listRoots<Kept>(
  send: SendRequest,
  configMap: string,
  keep: (held: HeldRoots) => Kept | Promise<Kept>,
): Promise<ClusterRoots<Kept>> {
  const namespaces = new Set<string>();
  for await (const { items, isFirst } of listPages(send, namespaceListing)) {
    if (isFirst) namespaces.clear();
    for (const object of items) {
      const [name, wantsRoots] = parseNamespace(object) ?? [];
      if (name !== undefined && wantsRoots) namespaces.add(name);
    }
  }
  if (namespaces.size === 0) throw new FetchError("lists no namespace");
  const held = new Map<string, Kept>();
  for await (const { items, isFirst } of listPages(send, configMapListing(configMap))) {
    if (isFirst) held.clear();
    for (const object of items) {
      const [name, roots] = parseRootConfigMap(object, configMap) ?? [];
      if (name !== undefined && roots) held.set(name, await keep(roots));
    }
  }
  return { namespaces: [...namespaces], held };
}
