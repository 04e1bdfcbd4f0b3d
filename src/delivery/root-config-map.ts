import * as z from "zod/mini";
import { DnsName } from "../foundation/addresses.ts";
import { FetchError } from "../foundation/fetch.ts";
import { KubernetesClient, type SendRequest } from "../kubernetes/client.ts";
import { Listing } from "../kubernetes/list-pages.ts";
import { ConfigMapName } from "../kubernetes/names.ts";
import type { NumberedBundle } from "../pki/authority/trust-bundle.ts";

/** The roots in a ConfigMap that was found. */
export interface HeldRoots {
  /** Empty where Istio would not read the ConfigMap. */
  readonly pem: string;
  /** From an annotation, like `deliveredAt`. A tenant may have changed both, so only the PEM proves a delivery. */
  readonly sequence: number | undefined;
  readonly deliveredAt: Date | undefined;
}

/** Lists the roots that clusters have, and compares them. */
export const HeldRoots = {
  /** The most octets of PEM in a ConfigMap. An API server refuses an object of more than a MiB. */
  maximumOctets: 1_000_000,

  /** Whether a namespace has the PEM of this bundle: never without a ConfigMap. Annotations are not compared. */
  hold(held: HeldRoots | undefined, { pem }: NumberedBundle): boolean {
    return held?.pem === pem;
  },

  /**
   * Lists a cluster's namespaces and its ConfigMaps of this name.
   *
   * @param keep Reduces the roots of a namespace to the part that the caller needs: bundles are large.
   * @throws FetchError for an API server that does not list, or that lists no namespace or too many.
   */
  async list<Kept>(
    send: SendRequest,
    configMap: string,
    keep: (held: HeldRoots) => Kept | Promise<Kept>,
  ): Promise<ClusterRoots<Kept>> {
    const namespaces = new Set<string>();
    for await (const { items, isFirst } of Listing.pages(send, namespaceListing)) {
      if (isFirst) namespaces.clear();
      for (const object of items) {
        const [name, wantsRoots] = parseNamespace(object) ?? [];
        if (name !== undefined && wantsRoots) namespaces.add(name);
      }
      if (namespaces.size > maximumNamespaces) throw new FetchError("lists too many namespaces");
    }
    if (namespaces.size === 0) throw new FetchError("lists no namespace");
    const held = new Map<string, Kept>();
    for await (const { items, isFirst } of Listing.pages(send, configMapListing(configMap))) {
      if (isFirst) held.clear();
      for (const object of items) {
        const [name, roots] = parseRootConfigMap(object, configMap) ?? [];
        if (name !== undefined && roots && namespaces.has(name)) held.set(name, await keep(roots));
      }
    }
    return { namespaces: [...namespaces], held };
  },
};

// Istio's label, keys and exceptions (docs/explanation/istio.md#root-distribution).
const label = "istio.io/config";
const excludedNamespaces: ReadonlySet<string> = new Set([
  "kube-public",
  "kube-node-lease",
  "local-path-storage",
]);

const dataKeyOf = (name: string): string =>
  name === ConfigMapName.ofCrls ? "ca-crl.pem" : "root-cert.pem";

const sequenceAnnotationOf = (name: string): string =>
  name === ConfigMapName.ofCrls ? "rampart.dev/crl-this-update" : "rampart.dev/spiffe-sequence";

const deliveredAtAnnotation = "rampart.dev/delivered-at";

/** The name of a namespace. It must be a label, because it becomes part of paths and is shown on terminals. */
const namespaceName = z.string().check(z.regex(DnsName.label));

const namespaceSchema = z.object({
  metadata: z.object({ name: namespaceName, deletionTimestamp: z.nullish(z.string()) }),
  status: z.prefault(z.object({ phase: z._default(z.string(), "") }), {}),
});

const texts = z.nullish(z.record(z.string(), z.string()));
const configMapSchema = z.object({
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
  const parsed = namespaceSchema.safeParse(object);
  if (!parsed.success) return undefined;
  const { metadata, status } = parsed.data;
  const isTerminating = status.phase === "Terminating" || Boolean(metadata.deletionTimestamp);
  return [metadata.name, !isTerminating && !excludedNamespaces.has(metadata.name)];
}

/**
 * A namespace and what its ConfigMap of this name holds, without PEM if Istio's label is missing; `undefined` for any
 * other object.
 */
export function parseRootConfigMap(
  object: unknown,
  name: string,
): readonly [string, HeldRoots] | undefined {
  const parsed = configMapSchema.safeParse(object);
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

/** Makes the ConfigMap with the roots for a namespace, with Istio's label and Rampart's annotations. */
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

/** A ConfigMap of roots, and the program that writes it. */
interface RootsPlace {
  readonly namespace: string;
  readonly configMap: string;
  /** A cluster shows it beside the fields, so that an operator sees which program has written them. */
  readonly fieldOwner: "rampart-ca" | "rampart-distribute";
}

/**
 * Applies a bundle to the ConfigMap of a namespace, whatever its fields' owner was before.
 *
 * @returns The roots that the API server has stored.
 * @throws FetchError also if the namespace is gone, or if something else was stored, as an admission webhook may do.
 */
export async function applyRoots(
  send: SendRequest,
  { namespace, configMap, fieldOwner }: RootsPlace,
  bundle: NumberedBundle,
  now: Date,
): Promise<HeldRoots> {
  const answer = await send({
    method: "PATCH",
    path: `/api/v1/namespaces/${namespace}/configmaps/${configMap}?fieldManager=${fieldOwner}&force=true`,
    body: rootConfigMap(configMap, namespace, bundle, now),
    maximumOctets: KubernetesClient.maximumObjectOctets,
  });
  // A namespace is rarely deleted between the list and the write. The next list lacks it.
  if (answer === undefined) throw new FetchError("has no such namespace any more");
  const [name, held] = parseRootConfigMap(answer, configMap) ?? [];
  if (name === namespace && held && HeldRoots.hold(held, bundle)) return held;
  throw new FetchError("has stored something else than what was applied");
}

const maximumRequests = 400;

/** How the namespaces of a cluster are listed. */
export const namespaceListing: Listing = {
  path: "/api/v1/namespaces",
  pageSize: 250,
  maximumRequests,
};

/** The ConfigMaps of this name in all namespaces; each holds a bundle. */
export function configMapListing(name: string): Listing {
  const path = `/api/v1/configmaps?fieldSelector=${encodeURIComponent(`metadata.name=${name}`)}`;
  return {
    path,
    pageSize: 100,
    maximumRequests,
    objectOctets: KubernetesClient.maximumObjectOctets,
  };
}

/** The roots in the namespaces of a cluster, as a list found them. */
export interface ClusterRoots<Kept> {
  /** The namespaces to which Istio would give roots; at least one. */
  readonly namespaces: readonly string[];
  readonly held: ReadonlyMap<string, Kept>;
}

/** Five times as many namespaces as the largest clusters with which Kubernetes is tested. */
const maximumNamespaces = 50_000;
